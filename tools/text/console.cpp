#include "tools/text/console.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

/// Ignores failed writes: if standard error is full or closed, nobody can be told, and the work continues. fmt::print
/// would throw.
void write_error_stream(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
  static_cast<void>(std::fflush(stderr));
}

/// Columns of the terminal on standard error. A status line has to be shorter: a line that wraps cannot be erased.
std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : kUsual;
}

constexpr std::size_t kLongestLine = 2000;
constexpr std::size_t kKeptTail = 1500;  ///< The end of a message holds the violated rule, so the end is kept.

/// Escapes the line. The middle of a line that is too long is left out.
std::string fitting(std::string_view line) {
  std::string text = printable(line);
  if (text.size() <= kLongestLine) return text;
  // The cut may split a character, so the text is escaped once more.
  return printable(shortened(text) + " … " + text.substr(text.size() - kKeptTail));
}

}  // namespace

void Console::erase_status() {
  if (has_status_) write_error_stream("\r\033[K");
  has_status_ = false;
}

void Console::print(std::string_view text) {
  erase_status();
  write_error_stream(fmt::format("cubit: {}\n", text));
}

void Console::say(std::string_view line) {
  const std::lock_guard lock(mutex_);
  print(fitting(line));
}

void Console::say_log(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::string lines = printable(text, Lines::many);
  if (said_.insert(lines).second) print(lines);
}

void Console::say_once(std::string_view line) {
  const std::lock_guard lock(mutex_);
  const std::string text = fitting(line);
  if (said_.insert(text).second) print(text);
}

void Console::status(std::string_view line) {
  if (::isatty(STDERR_FILENO) == 0) return;
  const std::lock_guard lock(mutex_);
  erase_status();
  if (line.empty()) return;
  write_error_stream(printable(line).substr(0, terminal_columns() - 1));
  has_status_ = true;
}

void Console::progress(std::size_t done, std::size_t total, std::string_view current) {
  constexpr std::size_t kWidth = 24;
  if (done == total) return status("");
  const std::size_t filled = kWidth * done / total;
  status(fmt::format("[{}{}] {}/{} {}", std::string(filled, '#'), std::string(kWidth - filled, '.'), done, total,
                     current));
}

LogFunction Console::log(bool verbose) {
  return [this, verbose](cubit_log_level level, std::string_view line) {
    if (level >= CUBIT_LOG_WARNING) {
      say_once(fmt::format("warning: {}", line));
    } else if (verbose) {
      say(line);
    }
  };
}

}  // namespace cubit::tools
