// Proves that `cubit study split_k` lists its launches on every machine and measures them on the CPU device. Times of a
// GPU are in bench/results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Study, DryRunListsTheLaunches) {
  const Program program;
  const Result text = program.run({"study", "split_k", "--dry-run"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("n = k = 16384"), HasSubstr("split_k_atomic 16"), HasSubstr("stream_k")));
  const auto entries = program.run({"study", "split_k", "--dry-run", "--json", "--sizes", "512", "--rows", "3"}).json();
  ASSERT_EQ(entries.size(), 11u);
  for (const auto& entry : entries) {
    EXPECT_EQ(entry.at("sizes").at("m"), 3);
    EXPECT_FALSE(entry.contains("microseconds"));
    EXPECT_FALSE(entry.contains("comparable"));
  }
}

TEST(Study, HelpNamesThePublication) {
  const Program program;
  const Result result = program.run({"study", "split_k", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("arXiv 2402.00025"), HasSubstr("--device cpu")));
}

TEST(Study, SmallLaunchesRunOnTheCpuDevice) {
  const Program program;
  if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string file = program.folder().path("split_k.json");
  const Result result = program.run(
      {"study", "split_k", "--rows", "1", "--sizes", "128", "--splits", "2", "--device", "cpu", "--json", file});
  if (result.err.find("libcubit_cpu") != std::string::npos) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("n = k = 128"), HasSubstr("TFLOP/s"), HasSubstr("split_k_atomic 2")));
  const auto entries = nlohmann::json::parse(test::read_file(file));
  ASSERT_EQ(entries.size(), 5u);
  for (const auto& entry : entries) {
    for (const char* field : {"device", "driver", "compiler", "cubit", "commit", "arch", "registers", "occupancy"})
      EXPECT_TRUE(entry.contains(field)) << field;
    EXPECT_GT(entry.at("teraflops"), 0);
    EXPECT_GT(entry.at("speedup"), 0);
    EXPECT_GT(entry.at("blocks"), 0);
    EXPECT_GT(entry.at("shared_memory"), 0);
  }
  EXPECT_THAT(entries[2].at("descriptor").get<std::string>(), HasSubstr("atomic_splits=true"));
}

TEST(Study, WithoutAGpuThereIsOneSentence) {
  const Program program;
  if (!program.run({"devices", "--json"}).json().at("devices").empty()) GTEST_SKIP() << "this machine has a GPU";
  const std::string file = program.folder().path("split_k.json");
  const Result result = program.run({"study", "split_k", "--json", file});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("cubit: no GPU: "), HasSubstr("nothing was timed\n")));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Study, BadInputIsOneSentence) {
  const Program program;
  struct Case {
    std::vector<std::string> arguments;
    std::string sentence;
  };
  const Case cases[] = {
      {{"study"}, "A subcommand is required; see cubit study --help"},
      {{"study", "stream_k"}, "stream_k: is not a subcommand of cubit study"},
      {{"study", "split_k", "--rows", "0"}, "is no number of rows M; accepted: from 1 to 1024"},
      {{"study", "split_k", "--sizes", "500"}, "is no size n = k of whole groups; accepted: multiples of 128"},
      {{"study", "split_k", "--splits", "2,2"}, "is given twice; give each number once"},
      {{"study", "split_k", "--splits", ","}, "a part of the list is empty"},
      {{"study", "split_k", "--arch", "sm_1"}, "sm_1"},
      {{"study", "split_k", "--dry-run", "--json", "/no/such/folder/x.json"}, "cannot be written"},
  };
  for (const Case& one : cases) {
    const Result result = program.run(one.arguments);
    EXPECT_EQ(result.exit_code, 2) << one.sentence;
    EXPECT_THAT(result.err, HasSubstr(one.sentence));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace cubit::tools
