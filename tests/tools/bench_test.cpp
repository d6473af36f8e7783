// Proves that `cubit bench` with an operator alone lists the operator's table on every machine and measures it on the
// CPU device. Times and floors of a GPU are the subject of tests/gpu and bench/results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Bench, DryRunListsTheOperatorsTable) {
  const Program program;
  const Result text = program.run({"bench", "gqa_decode", "--dry-run"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("B=512"), HasSubstr("152.0 us, 96%"), HasSubstr("ragged=1")));
  const auto cases = program.run({"bench", "gqa_decode", "--dry-run", "--json"}).json();
  const auto operators = program.run({"operators", "gqa_decode", "--json"}).json();
  ASSERT_EQ(cases.size(), operators[0].at("bench").size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].at("descriptor"), operators[0].at("bench")[i].at("descriptor"));
    EXPECT_FALSE(cases[i].contains("microseconds"));
  }
}

// A size that only some cases have is set in those cases and reported by the other ones.
TEST(Bench, DryRunSaysWhichCasesDoNotTakeASize) {
  const Program program;
  const Result result = program.run({"bench", "gqa_decode", "--dry-run", "--set", "page_size=32", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::size_t taken = 0;
  for (const auto& one : result.json()) {
    const bool is_paged = one.at("descriptor").get<std::string>().find("cache=paged") != std::string::npos;
    const auto why = one.at("skipped").get<std::string>();
    EXPECT_EQ(why.empty(), is_paged) << one.at("descriptor") << why;
    if (!is_paged) {
      EXPECT_THAT(why, AllOf(HasSubstr("size page_size: gqa_decode"), HasSubstr("has no such size")));
    }
    taken += is_paged ? 1 : 0;
  }
  EXPECT_GT(taken, 0u);
}

TEST(Bench, DecompositionsAreListedSideBySide) {
  const Program program;
  const auto all =
      program.run({"bench", "w4a16_gemm", "--dry-run", "--only", "M=16", "--decomposition", "all", "--json"}).json();
  constexpr std::size_t kShapes = 5;
  constexpr std::size_t kInvariant = 3;
  constexpr const char* kNames[] = {"data_parallel", "split_k", "stream_k", "split_k_atomic"};
  ASSERT_EQ(all.size(), 4 * (kShapes + kInvariant));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].at("decomposition"), kNames[i % 4]);
    EXPECT_EQ(all[i].at("sizes").at("decomposition"), 1 + i % 4);
    EXPECT_FALSE(all[i].contains("comparable"));
    const auto why = all[i].at("skipped").get<std::string>();
    if (i < 4 * kShapes) {
      EXPECT_EQ(all[i].at("descriptor"),
                i % 4 < 3 ? "w4a16_gemm:tile_m=16,tile_n=256" : "w4a16_gemm:tile_m=16,tile_n=256,atomic_splits=true");
      EXPECT_EQ(why, "");
    } else {
      EXPECT_EQ(why.empty(), i % 4 < 2) << why;
      if (i % 4 < 2) continue;
      EXPECT_THAT(
          why, HasSubstr(i % 4 == 2 ? "balanced shares of all tiles" : "batch_invariant=true needs sums in one order"));
    }
  }
  const Result named = program.run({"bench", "w4a16_gemm", "--dry-run", "--only", "N=4096 K=4096 M=16", "--set",
                                    "splits=2,decomposition=stream_k", "--json"});
  ASSERT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(named.json()[0].at("sizes").at("decomposition"), 3);
  const Result one = program.run({"bench", "w4a16_gemm", "--dry-run", "--decomposition", "split_k"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("N=4096 K=4096 M=1, split_k"));
}

TEST(Bench, DecompositionsAreComparedOnTheCpuDevice) {
  const Program program;
  if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  const Result result = program.run({"bench", "w4a16_gemm", "--only", "N=8192 K=28672 M=8", "--set", "n=8,k=128,m=1",
                                     "--decomposition", "all", "--device", "cpu", "--json"});
  if (result.err.find("libcubit_cpu") != std::string::npos) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto entries = result.json();
  ASSERT_EQ(entries.size(), 4u);
  for (const auto& entry : entries) EXPECT_GT(entry.at("speedup"), 0);
  EXPECT_EQ(entries[0].at("speedup"), 1);
}

// A descriptor that excludes a decomposition is no failure; the entry says why it was skipped.
TEST(Bench, ADecompositionThatIsRuledOutSaysSo) {
  const Program program;
  if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  const Result result = program.run({"bench", "w4a16_gemm", "--only", "batch invariant", "--set", "n=8,k=128,m=1",
                                     "--decomposition", "stream_k", "--device", "cpu", "--json"});
  if (result.err.find("libcubit_cpu") != std::string::npos) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const auto& entry : result.json()) {
    EXPECT_FALSE(entry.contains("microseconds"));
    EXPECT_THAT(entry.at("skipped").get<std::string>(), HasSubstr("balanced shares of all tiles"));
  }
}

TEST(Bench, HelpSaysThatTheCpuMustBeNamed) {
  const Program program;
  const std::string help = program.run({"bench", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--device"));
  EXPECT_EQ(help.find("else cpu"), std::string::npos);
  EXPECT_THAT(program.run({"run", "--help"}).out, HasSubstr("else cpu"));
}

TEST(Bench, WithoutAGpuTheTableIsOneSentence) {
  const Program program;
  if (!program.run({"devices", "--json"}).json().at("devices").empty()) GTEST_SKIP() << "this machine has a GPU";
  const std::string file = program.folder().path("results.json");
  const Result result = program.run({"bench", "gqa_decode", "--json", file});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("cubit: no GPU: "), HasSubstr("nothing was timed\n")));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Bench, SmallCasesRunOnTheCpuDevice) {
  const Program program;
  if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string json_file = program.folder().path("results.json");
  const std::string svg_file = program.folder().path("roofline.svg");
  const Result result = program.run({"bench", "gqa_decode", "--only", "1 head", "--set", "batch=1,context=16",
                                     "--device", "cpu", "--json", json_file, "--svg", svg_file});
  if (result.err.find("libcubit_cpu") != std::string::npos) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("floor us"), HasSubstr("gqa_decode:kv=int4_rows,groups=4")));
  const auto entries = nlohmann::json::parse(test::read_file(json_file));
  ASSERT_EQ(entries.size(), 2u);
  for (const auto& entry : entries) {
    for (const char* field : {"group", "name", "descriptor", "device", "driver", "compiler", "commit", "arch"}) {
      EXPECT_TRUE(entry.contains(field)) << field;
    }
    EXPECT_EQ(entry.at("operations"), 4 * 16 * 128);
    EXPECT_GT(entry.at("microseconds"), 0);
    EXPECT_GT(entry.at("floor_microseconds"), 0);
    EXPECT_EQ(entry.at("arena_bytes"), entries[0].at("arena_bytes")) << "one allocation for all cases";
  }
  EXPECT_THAT(test::read_file(svg_file), HasSubstr("class=\"point\""));
}

TEST(Bench, RefusesWhatATableCannotBe) {
  const Program program;
  struct Case {
    std::vector<std::string> arguments;
    std::string sentence;
  };
  const Case cases[] = {
      {{"bench", "stream_read"}, "a case needs tensors"},
      {{"bench", "no_such_operator"}, "is not an operator"},
      {{"bench", "gqa_decode", "--only", "no such case"}, "no case of the table contains this text"},
      {{"bench", "stream_read", "--random", "bytes=64", "--dry-run"}, "give the operator alone"},
      {{"bench", "w4a16_gemm", "--decomposition", "thirds", "--dry-run"},
       "has no such decomposition; accepted: all, data_parallel, split_k, stream_k, split_k_atomic"},
      {{"bench", "gqa_decode", "--dry-run", "--set", "foo=1"},
       "size foo: gqa_decode:heads_per_kv=8 has no such size; accepted: batch"},
      {{"bench", "gqa_decode", "--dry-run", "--set", "batch=-1"}, "batch = -1: it is not a number that is accepted"},
      {{"bench", "w4a16_gemm", "--dry-run", "--set", "m=1", "--set", "foo=1"}, "size foo: w4a16_gemm has no such size"},
      {{"bench", "gqa_decode", "--set", "foo=1", "--device", "cpu"},
       "size foo: gqa_decode:heads_per_kv=8 has no such size"},
      {{"bench", "gqa_decode", "--decomposition", "all", "--dry-run"}, "has only one decomposition"},
      {{"bench", "w4a16_gemm", "--decomposition", "all", "--random", "m=1"},
       "compares the cases of an operator's table"},
      {{"bench", "gqa_decode", "--dry-run", "--svg", "/no/such/folder/x.svg"}, "cannot be written"},
  };
  for (const Case& one : cases) {
    const Result result = program.run(one.arguments);
    EXPECT_EQ(result.exit_code, 2) << one.sentence;
    EXPECT_THAT(result.err, HasSubstr(one.sentence));
  }
}

}  // namespace
}  // namespace cubit::tools
