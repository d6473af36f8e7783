// Proves what reaches standard error: a status line on a terminal only, erased before anything else is printed.
#include "tools/text/console.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
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
  char shown[4096];
  const ssize_t bytes = ::read(terminal, shown, sizeof shown);
  ::close(screen);
  ::close(terminal);
  ASSERT_GT(bytes, 0);
  EXPECT_EQ(std::string(shown, static_cast<std::size_t>(bytes)),
            "case 1 of 2: a name\r\033[Kcubit: a warning\r\n[############......\r\033[K");
}

}  // namespace
}  // namespace cubit::tools
