// Proves what the command line prints on the CPU device, and that no report claims a watch that did not happen. The
// tests skip without NVRTC or libcubit_cpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr const char* kSmall = "gqa_decode:head_dim=64";

class OnTheCpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto trouble = program_.run({"devices", "--json"}).json().at("cpu").at("trouble").get<std::string>();
    if (!trouble.empty()) GTEST_SKIP() << trouble;
    if (!program_.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  }
  Result run(std::vector<std::string> more) const {
    std::vector<std::string> words = {"run", kSmall, "--random", "batch=2,context=40", "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return program_.run(words);
  }

  Program program_;
};

std::vector<std::string> names_of(const nlohmann::json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

TEST_F(OnTheCpu, RegistersAreNotKnownAndNotClaimed) {
  const Result json = run({"--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const nlohmann::json kernel = json.json().at("kernel");
  for (const char* name : {"registers", "spill_bytes", "stack_bytes", "static_shared_memory"})
    EXPECT_TRUE(kernel.at(name).is_null()) << name;
  EXPECT_GT(kernel.at("cubin_bytes"), 0);
  const Result text = run({});
  EXPECT_THAT(text.out, AllOf(HasSubstr("cpu:sm_80"), Not(HasSubstr("registers")), Not(HasSubstr("memory:"))));
  const nlohmann::json entries = program_.run({"cache", "list", "--json"}).json().at("entries");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries[0].at("registers").is_null());
  EXPECT_EQ(program_.run({"cache", "list"}).exit_code, 0);
}

TEST_F(OnTheCpu, CheckMemorySaysThatItDid) {
  const Result json = run({"--check-memory", "--check", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(json.json().at("memory"), "checked");
  EXPECT_EQ(json.json().at("check").at("good"), true);
  EXPECT_FALSE(json.json().contains("counters"));
  EXPECT_THAT(run({"--check-memory"}).out, HasSubstr("memory: no race, no read of unwritten memory"));
}

/// Quantises, dequantises and quantises again: the fp16 values of 4-bit weights fall on the same steps, so the files
/// are equal.
TEST_F(OnTheCpu, ACacheGoesThroughFilesAndBack) {
  const std::string cache = program_.folder().path("cache.safetensors");
  const std::string rows = program_.folder().path("rows.safetensors");
  const std::string again = program_.folder().path("again.safetensors");
  const auto good = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--device", "cpu", "--check"});
    const Result result = program_.run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("check passed: error 0"));
  };
  good({"run", "kv_append:kv=int4_rows", "--random", "batch=2,tokens=5,context=5,kv_heads=2,pattern=3", "--output",
        cache});
  good({"run", "kv_gather:kv=int4_rows,output=fp16", "--input", cache, "--output", rows});
  good({"run", "kv_append:kv=int4_rows,input=fp16", "--input", rows, "--output", again});
  EXPECT_EQ(test::read_file(cache), test::read_file(again));
}

/// A safetensors file with a cache of int4_rows with one group, one KV head and 8 query heads. Rows are padded to
/// `pitch` bytes with NaN.
std::string packed_cache(std::size_t pitch) {
  constexpr int kTokens = 20;
  constexpr std::size_t kRow = 68;
  std::string query;  // bf16
  for (int i = 0; i < 8 * 128; ++i) query += {static_cast<char>(i * 37), static_cast<char>(i % 3 == 0 ? 0xbf : 0x3f)};
  std::string cache;
  for (int token = 0; token < kTokens; ++token) {
    std::string row = {0, 0x2c, 0, static_cast<char>(token % 2 == 0 ? 0xb4 : 0x30)};  // scale and shift in fp16
    while (row.size() < kRow) row += static_cast<char>(row.size() * 29 + static_cast<std::size_t>(token) * 71);
    row.resize(pitch, '\xff');
    cache += row;
  }
  const std::size_t bytes = cache.size();
  const nlohmann::json header = {
      {"query", {{"dtype", "BF16"}, {"shape", {1, 8, 128}}, {"data_offsets", {0, query.size()}}}},
      {"key",
       {{"dtype", "U8"}, {"shape", {1, kTokens, 1, pitch}}, {"data_offsets", {query.size(), query.size() + bytes}}}},
      {"value",
       {{"dtype", "U8"},
        {"shape", {1, kTokens, 1, pitch}},
        {"data_offsets", {query.size() + bytes, query.size() + 2 * bytes}}}}};
  return test::safetensors_bytes(header.dump(), query + cache + cache);
}

TEST_F(OnTheCpu, RunTakesTheAlignmentOfTheGivenTensors) {
  const std::string unpadded = program_.folder().write("unpadded.safetensors", packed_cache(68));
  const std::string padded = program_.folder().write("padded.safetensors", packed_cache(80));
  const std::string text = "gqa_decode:heads_per_kv=8,kv=int4_rows";
  const auto run = [&](const std::string& descriptor, const std::string& file, std::vector<std::string> more) {
    more.insert(more.begin(), {"run", descriptor, "--input", file, "--device", "cpu", "--check", "--json"});
    return program_.run(more);
  };
  const Result four = run(text, unpadded, {});
  ASSERT_EQ(four.exit_code, 0) << four.err;
  EXPECT_EQ(four.json().at("descriptor"), text) << "alignment=4 is the default";
  EXPECT_THAT(four.err, Not(HasSubstr("alignment")));
  const Result sixteen = run(text, padded, {"--set", "padded_rows=1"});
  ASSERT_EQ(sixteen.exit_code, 0) << sixteen.err;
  EXPECT_EQ(sixteen.json().at("descriptor"), text + ",alignment=16");
  EXPECT_THAT(sixteen.err,
              HasSubstr("cubit: " + text + " has the alignment of the given tensors: " + text + ",alignment=16\n"));
  const Result eight = run(text + ",alignment=8", padded, {"--set", "padded_rows=1"});
  ASSERT_EQ(eight.exit_code, 0) << eight.err;
  EXPECT_EQ(eight.json().at("descriptor"), text + ",alignment=8") << "the descriptor says it";
  EXPECT_THAT(eight.err, Not(HasSubstr("alignment")));
  const Result unsaid = run(text, padded, {});
  EXPECT_EQ(unsaid.exit_code, 2);
  EXPECT_THAT(unsaid.err, HasSubstr("give padded_rows=1 if the rest of a row is padding"));
}

TEST_F(OnTheCpu, AnEmptyCaseIsNotCalledChecked) {
  const std::vector<std::string> words = {"run", kSmall,   "--random", "batch=0",       "--device",
                                          "cpu", "--arch", "sm_80",    "--check-memory"};
  const Result text = program_.run(words);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("memory: nothing was checked: the case is empty, so no kernel ran"));
  EXPECT_THAT(text.err, HasSubstr("no kernel ran that could be watched"));
  auto with_json = words;
  with_json.push_back("--json");
  EXPECT_NE(program_.run(with_json).json().at("memory"), "checked");
}

TEST_F(OnTheCpu, AnEmptyCaseHasPassedNoCheck) {
  const std::vector<std::string> words = {"run", kSmall,   "--random", "batch=0", "--device",
                                          "cpu", "--arch", "sm_80",    "--check"};
  const Result text = program_.run(words);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("\nnothing was checked: the case is empty, so no kernel ran\n"));
  EXPECT_THAT(text.err, HasSubstr("nothing was checked"));
  auto with_json = words;
  with_json.push_back("--json");
  EXPECT_EQ(program_.run(with_json).json().at("check").at("good"), false);
}

TEST_F(OnTheCpu, AnExactResultHasNoWorst) {
  const Result result =
      program_.run({"run", "kv_gather", "--random", "batch=1", "--device", "cpu", "--arch", "sm_80", "--check"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\ncheck passed: error 0, tolerance 0\n"));
}

// Scripts read these fields.
TEST_F(OnTheCpu, CountersOfTheLaunch) {
  const Result json = run({"--counters", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_FALSE(json.json().contains("memory"));
  const nlohmann::json launches = json.json().at("counters");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_THAT(names_of(launches[0]),
              UnorderedElementsAre("kernel", "blocks", "warps", "barriers", "instructions", "shared", "global"));
  EXPECT_GT(launches[0].at("instructions").at("mma"), 0);
  ASSERT_FALSE(launches[0].at("shared").empty());
  EXPECT_THAT(names_of(launches[0].at("shared")[0]),
              UnorderedElementsAre("opcode", "ptx_line", "places", "requests", "wavefronts", "ideal_wavefronts"));
  ASSERT_FALSE(launches[0].at("global").empty());
  EXPECT_THAT(names_of(launches[0].at("global")[0]), IsSupersetOf({"sectors", "ideal_sectors"}));
  EXPECT_THAT(run({"--counters"}).out, AllOf(HasSubstr("Shared memory"), HasSubstr("Global memory"), HasSubstr("mma")));
}

TEST_F(OnTheCpu, BothWatchesAtOnce) {
  const auto json = run({"--counters", "--check-memory", "--json"}).json();
  EXPECT_EQ(json.at("memory"), "checked");
  EXPECT_EQ(json.at("counters").size(), 1u);
}

TEST_F(OnTheCpu, ExplainMeasuresEveryProof) {
  const std::vector<std::string> words = {"explain", kSmall, "--arch", "sm_80", "--measure"};
  const Result text = program_.run(words);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("counted_wavefronts"));
  auto with_json = words;
  with_json.push_back("--json");
  const auto plan = program_.run(with_json).json();
  ASSERT_EQ(plan.at("measured").size(), plan.at("proofs").size());
  for (const auto& row : plan.at("measured")) {
    EXPECT_GT(row.at("counted_requests"), 0) << row;
    EXPECT_EQ(row.at("agrees"), true) << row;
  }
  EXPECT_FALSE(program_.run({"explain", kSmall, "--arch", "sm_80", "--json"}).json().contains("measured"));
}

/// The comparison also reaches accesses that occur only at the end of a sequence, because box copies move the rest.
TEST_F(OnTheCpu, ExplainMeasuresEveryProofOfFamilySm90) {
  for (const char* text : {"gqa_decode", "gqa_decode:cache=paged", "gqa_decode:kv=int4_rows,family=sm90"}) {
    const Result result = program_.run({"explain", text, "--arch", "sm_90a", "--measure", "--json"});
    EXPECT_EQ(result.exit_code, 0) << text << ": " << result.err;
    const auto json = result.json();
    EXPECT_EQ(json.at("family"), "sm90_gqa_decode");
    EXPECT_FALSE(json.at("measured").empty()) << text;
    for (const auto& row : json.at("measured")) EXPECT_EQ(row.at("agrees"), true) << text << ": " << row;
  }
}

/// Sequences of many heads are not split by default, and not every number of rows is a multiple of the copy steps.
TEST_F(OnTheCpu, ExplainMeasuresEveryProofOfManyHeadsAndOfOddSteps) {
  for (const auto& [text, architecture] :
       {std::pair{"gqa_decode:heads_per_kv=48", "sm_80"},
        {"gqa_decode:heads_per_kv=8,query_tokens=8", "sm_80"},
        {"gqa_decode:head_dim=256,heads_per_kv=8,kv=int4_rows,groups=4,family=sm90", "sm_120"}}) {
    const Result result = program_.run({"explain", text, "--arch", architecture, "--measure"});
    EXPECT_EQ(result.exit_code, 0) << text << ": " << result.err;
  }
}

/// The plan is shown with the reason why nothing was counted.
TEST_F(OnTheCpu, ExplainSaysWhyItCouldNotMeasure) {
  const std::string command = "CUBIT_COMPILE=never \"$0\" \"$@\"";
  const std::vector<std::string> words = {"explain", "gqa_decode:head_dim=64,heads_per_kv=3", "--arch", "sm_80",
                                          "--measure"};
  const Result text = program_.run_in_shell(command, words);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, AllOf(HasSubstr("Decisions"), HasSubstr("Not counted on the CPU device: ")));
  EXPECT_THAT(text.err, HasSubstr("cubit: --measure: "));
  auto with_json = words;
  with_json.push_back("--json");
  EXPECT_TRUE(program_.run_in_shell(command, with_json).json().contains("measured_unavailable"));
}

/// Without a launch nothing was watched: two architectures give a report of two compiled kernels.
TEST_F(OnTheCpu, AWatchWithoutALaunchIsAFailure) {
  if (!program_.run({"devices", "--json"}).json().at("devices").empty()) GTEST_SKIP() << "this machine has a GPU";
  const std::vector<std::string> words = {"run", "stream_read", "--random", "bytes=4096", "--arch", "sm_80,sm_90a"};
  EXPECT_EQ(program_.run(words).exit_code, 0);
  for (const auto& [flag, sentence] :
       {std::pair{"--check-memory", "no memory was watched"}, std::pair{"--counters", "nothing was counted"}}) {
    auto watched = words;
    watched.push_back(flag);
    const Result result = program_.run(watched);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(sentence));
  }
}

}  // namespace
}  // namespace cubit::tools
