// Proves what reaches standard error: a status line on a terminal only, erased before anything else is printed.
#include "tools/text/console.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/tools/support.hpp"

namespace cubit::tools {
namespace {

/// Sends standard error to `descriptor` while it lives.
class RedirectedErrors {
 public:
  explicit RedirectedErrors(int descriptor) : saved_(::dup(STDERR_FILENO)) { ::dup2(descriptor, STDERR_FILENO); }
  ~RedirectedErrors() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  RedirectedErrors(const RedirectedErrors&) = delete;
  RedirectedErrors& operator=(const RedirectedErrors&) = delete;

 private:
  int saved_;
};

/// Reads until `size` bytes have come, or none has come for a while: a terminal may deliver its text in parts.
std::string read_terminal(int terminal, std::size_t size) {
  constexpr int kPatience = 10'000;  // milliseconds
  std::string text;
  pollfd ready{.fd = terminal, .events = POLLIN, .revents = 0};
  while (text.size() < size && ::poll(&ready, 1, kPatience) > 0) {
    char part[4096];
    const ssize_t bytes = ::read(terminal, part, sizeof part);
    if (bytes <= 0) break;
    text.append(part, static_cast<std::size_t>(bytes));
  }
  return text;
}

void use_console() {
  Console console;
  console.status("case 1 of 2: a name that is longer than the terminal is wide");
  console.say("a warning");
  console.progress(1, 2, "half");
  console.progress(2, 2, "");
}

TEST(Console, StatusLinesAreForTerminalsOnly) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("errors", "");
  const int file = ::open(path.c_str(), O_WRONLY);
  ASSERT_GE(file, 0);
  {
    const RedirectedErrors redirected(file);
    use_console();
  }
  ::close(file);
  EXPECT_EQ(test::read_file(path), "cubit: a warning\n");
}

TEST(Console, AStatusLineFitsTheTerminalAndIsErased) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo-terminal here";
  const int screen = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  if (screen < 0) GTEST_SKIP() << "no pseudo-terminal here";
  const winsize size{.ws_row = 24, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(screen, TIOCSWINSZ, &size), 0);
  {
    const RedirectedErrors redirected(screen);
    use_console();
  }
  const std::string expected = "case 1 of 2: a name\r\033[Kcubit: a warning\r\n[############......\r\033[K";
  const std::string shown = read_terminal(terminal, expected.size());
  ::close(screen);
  ::close(terminal);
  EXPECT_EQ(shown, expected);
}

}  // namespace
}  // namespace cubit::tools
