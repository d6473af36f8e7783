// Writes to standard error: warnings, log lines and the status line share the stream.
#pragma once

#include <cubit/cubit.hpp>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace cubit::tools {

/// All functions are thread-safe. Standard output is reserved for results.
class Console {
 public:
  /// Prints "cubit: <line>" on one line. Control characters are escaped, and the middle of a long line is left out.
  void say(std::string_view line);
  /// Like say, but prints a line only the first time: several engines may report the same problem.
  void say_once(std::string_view line);
  /// Like say_once, for text of any length and with several lines, such as a compiler's log.
  void say_log(std::string_view text);
  /// A line that the next output replaces, where standard error is a terminal. An empty line only removes the last one.
  void status(std::string_view line);
  /// A bar in a status line; `done == total` removes it.
  void progress(std::size_t done, std::size_t total, std::string_view current);

  /// A log function for engines: prints warnings and errors; with `verbose`, prints every line.
  LogFunction log(bool verbose);

 private:
  void print(std::string_view text);
  void erase_status();

  std::mutex mutex_;
  std::set<std::string, std::less<>> said_;
  bool has_status_ = false;
};

}  // namespace cubit::tools
