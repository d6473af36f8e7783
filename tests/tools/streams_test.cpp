// Proves that closed, full or broken standard streams change neither the program's work nor its files: every exit code
// stays one of the documented three, and no message is written into a file that got a stream's number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::HasSubstr;

constexpr const char* kStreams[] = {"<&-",      ">&-",     "2>&-",         "2>/dev/full", "<&- 2>&-",
                                    ">&- 2>&-", "<&- >&-", "<&- >&- 2>&-", ">/dev/null",  "2>/dev/null"};

std::string command(const std::string& redirections) { return R"("$0" "$@" )" + redirections; }

TEST(Streams, GoodWorkExitsWithZero) {
  for (const char* streams : kStreams) {
    const Result result = Program().run_in_shell(command(streams), {"operators"});
    EXPECT_EQ(result.exit_code, 0) << streams << result.err;
  }
}

TEST(Streams, BadInputExitsWithTwo) {
  for (const char* streams : kStreams) {
    EXPECT_EQ(Program().run_in_shell(command(streams), {"operators", "nosuch"}).exit_code, 2) << streams;
    EXPECT_EQ(Program().run_in_shell(command(streams), {"compile", "--file", "-"}).exit_code, 2) << streams;
    EXPECT_EQ(Program().run_in_shell(command(streams), {"fly"}).exit_code, 2) << streams;
  }
}

TEST(Streams, MessagesNeverLandInAFile) {
  for (const char* streams : kStreams) {
    const Program program;
    const std::vector<std::string> arguments = {"compile", "stream_read", "--arch", "sm_80", "--verbose"};
    program.run_in_shell(command(streams), arguments);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(program.folder().path("."))) {
      if (!entry.is_regular_file() || entry.path().filename() == "err" || entry.path().filename() == "out") continue;
      EXPECT_EQ(test::read_file(entry.path()).find("cubit: "), std::string::npos) << streams << entry.path();
    }
    EXPECT_EQ(program.run({"cache", "verify"}).exit_code, 0) << streams;
  }
}

TEST(Streams, AFileSizeLimitIsAFailureAndLeavesNoPartialEntry) {
  const Program program;
  const std::string limited = "ulimit -f 2; " + command("");
  const Result result = program.run_in_shell(limited, {"compile", "stream_read", "--arch", "sm_80"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(program.run({"cache", "list", "--json"}).json().at("entries").size(), 0u);
}

TEST(Streams, AFullStandardOutputIsAFailure) {
  const std::vector<std::vector<std::string>> commands = {{"operators"}, {"--help"}, {"run", "--help"}, {"--version"}};
  for (const auto& arguments : commands) {
    const Result result = Program().run_in_shell(command(">/dev/full"), arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments.back();
    EXPECT_THAT(result.err, HasSubstr("cubit: "));
  }
}

}  // namespace
}  // namespace cubit::tools
