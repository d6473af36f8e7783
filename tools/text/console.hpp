// Standard error: warnings, log lines and the progress bar take turns on it.
#pragma once

#include <cubit/cubit.hpp>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace cubit::tools {

/// Thread-safe. Standard output belongs to results.
class Console {
 public:
  /// "cubit: <line>", whatever is in it: on one line, with control characters escaped, and cut in the middle if it is
  /// long.
  void say(std::string_view line);
  /// As say, but a line that was said before is not repeated: several engines may meet the same trouble.
  void say_once(std::string_view line);
  /// As say_once, of any length and in lines, as the log of a compiler is.
  void say_log(std::string_view text);
  /// A line that the next output replaces, where standard error is a terminal. An empty line only removes the last one.
  void status(std::string_view line);
  /// A bar in a status line; `done == total` removes it.
  void progress(std::size_t done, std::size_t total, std::string_view current);

  /// What an engine's log lines become: warnings and errors always, everything if `verbose`.
  LogFunction log(bool verbose);

 private:
  void print(std::string_view text);
  void erase_status();

  std::mutex mutex_;
  std::set<std::string, std::less<>> said_;
  bool has_status_ = false;
};

}  // namespace cubit::tools
