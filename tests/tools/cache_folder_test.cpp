// Proves how the program treats a cache folder that cannot be used. A wrong folder name ends in exit code 2 and one
// sentence. A kernel that no store keeps ends in exit code 1. Looking at a folder never creates it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

const Words kCompile = {"compile", "stream_read", "--arch", "sm_80"};
const Words kRun = {"run", "stream_read", "--random", "bytes=4096", "--arch", "sm_80"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_refusal(const Result& result, const std::string& folder, const std::string& rule) {
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(folder + ": "));
  EXPECT_THAT(result.err, HasSubstr(rule));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(CacheFolder, AFileIsRefused) {
  const Program program;
  const std::string file = program.folder().write("file", "x");
  for (const std::string& folder : {file, file + "/", file + "/below"}) {
    const std::string variable = "CUBIT_CACHE_DIR=" + folder + " \"$0\" \"$@\"";
    for (const Words& command : {kCompile, kRun}) {
      expect_refusal(program.run(command + Words{"--cache-dir", folder}), folder, "is not a folder");
      expect_refusal(program.run_in_shell(variable, command), folder, "is not a folder");
    }
  }
  EXPECT_EQ(test::read_file(file), "x");
}

TEST(CacheFolder, ADanglingLinkIsRefused) {
  const Program program;
  const std::string link = program.folder().path("link");
  std::filesystem::create_symlink(program.folder().path("nowhere"), link);
  const std::string variable = "CUBIT_CACHE_DIR=" + link + " \"$0\" \"$@\"";
  for (const Words& command : {kCompile, kRun, Words{"cache", "list"}}) {
    expect_refusal(program.run(command + Words{"--cache-dir", link}), link, "does not exist");
    expect_refusal(program.run_in_shell(variable, command), link, "does not exist");
  }
}

/// The folder of --output is a cache folder that can be shipped.
TEST(CacheFolder, TheOutputOfCompileIsReadBack) {
  const Program program;
  if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string output = program.folder().path("output");
  ASSERT_EQ(program.run(kCompile + Words{"--output", output}).exit_code, 0);
  const Result read = program.run(kCompile + Words{"--cache-dir", output, "--compile", "never"});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("cached"));
}

/// /proc refuses new folders even to root.
TEST(CacheFolder, AKernelThatNothingKeepsIsAFailure) {
  const Program program;
  if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  const Words command = kCompile + Words{"--cache-dir", "/proc/cubit"};
  const Result result = program.run(command);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("compiled"));
  EXPECT_THAT(result.err, HasSubstr("could not be stored in the disk cache"));
  EXPECT_EQ(program.run(command + Words{"--output", program.folder().path("cubins")}).exit_code, 0);
  EXPECT_EQ(program.run(kCompile + Words{"--cache-dir", ""}).exit_code, 0);
}

TEST(CacheFolder, LookingIntoOneDoesNotMakeIt) {
  const Program program;
  for (const std::string& folder :
       {program.folder().path("typo"), program.folder().path("typo/"), program.folder().path("typo/below")}) {
    for (const char* verb : {"list", "verify", "clear"}) {
      expect_refusal(program.run({"cache", verb, "--cache-dir", folder}), folder, "does not exist");
    }
  }
  EXPECT_FALSE(std::filesystem::exists(program.folder().path("typo")));
}

TEST(CompilePolicy, TheVariableIsJudgedOnlyWhereItDecides) {
  const Program program;
  const auto with_junk = [&](const Words& words) {
    return program.run_in_shell("CUBIT_COMPILE=junk \"$0\" \"$@\"", words);
  };
  for (const char* verb : {"list", "verify", "clear"}) {
    const Result result = with_junk({"cache", verb});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  const Result refused = with_junk(kCompile);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("CUBIT_COMPILE=junk"));
  const Result forbidden = with_junk(kCompile + Words{"--compile", "never"});
  EXPECT_EQ(forbidden.exit_code, 1);
  EXPECT_EQ(forbidden.err.find("junk"), std::string::npos) << forbidden.err;
}

TEST(CacheFolder, ALimitThatIsNoNumberToKeepIsRefused) {
  const Program program;
  std::filesystem::create_directory(program.cache());
  for (const std::string limit : {"-1", "0", "0G", "18446744073709551617", "some"}) {
    const Result result = program.run({"cache", "prune", "--max-bytes", limit, "--cache-dir", program.cache()});
    EXPECT_EQ(result.exit_code, 2) << limit;
    EXPECT_THAT(result.err, HasSubstr("accepted: whole numbers from 1 on, such as 500M or 2G"));
  }
  EXPECT_EQ(program.run({"cache", "prune", "--max-days", "0", "--cache-dir", program.cache()}).exit_code, 2);
  EXPECT_EQ(program.run({"cache", "prune", "--max-bytes", "2G", "--cache-dir", program.cache()}).exit_code, 0);
}

}  // namespace
}  // namespace cubit::tools
