// gqa_decode whose sequences are in more parts than a block merges at once, or have more rows: family sm90 merges them
// by several blocks, a slice by each, and the last block has those that others could not wait for. And sequences that
// end in a block that goes on with another: their merge comes a segment later. And sequences of two blocks, which are a
// cluster. Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

struct SlicesCase {
  const char* descriptor;
  Problem::Numbers sizes;
  bool are_pairs = false;
};

class GqaSlices : public ::testing::TestWithParam<SlicesCase> {};

/// Whether the launch merged pairs; and that none of what they store and load meets the banks worse than it must.
bool merged_pairs(const Device& device) {
  std::int64_t requests = 0;
  for (const auto& launch : nlohmann::json::parse(device.counters())) {
    for (const auto& site : launch.at("shared")) {
      for (const std::string place : site.at("places")) {
        if (!place.starts_with("cluster_merge.cuh:")) continue;
        requests += site.at("requests").get<std::int64_t>();
        EXPECT_EQ(site.at("wavefronts"), site.at("ideal_wavefronts")) << site;
        break;
      }
    }
  }
  return requests > 0;
}

/// Watched, blocks are executed one after the other, and the last merges what the others leave; else several at once,
/// which wait for each other.
void expect_all_are_merged(const SlicesCase& given, bool watched) {
  SCOPED_TRACE(watched ? "watched" : "several blocks at once");
  const Device device("cpu:sm_90a");
  if (watched) device.watch(CUBIT_WATCH_MEMORY | CUBIT_WATCH_COUNTERS);
  const Kernel kernel = engine().get(given.descriptor, "cpu:sm_90a");
  const Problem problem = Problem::random(given.descriptor, given.sizes, 1);
  DeviceCase on_device(device, problem);
  const void* const arguments = on_device.arguments();
  const GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
  ASSERT_GT(workspace.bytes(), 0U);
  const auto launch = [&] {
    kernel.launch(arguments, {.device = &device, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
    return on_device.output(0).download();
  };
  const auto once = launch();
  EXPECT_EQ(launch(), once) << "the counters were not zero again, or the order of parts changed";
  on_device.expect_guards_intact();
  EXPECT_TRUE(workspace.guards_intact());
  if (watched) {
    EXPECT_EQ(merged_pairs(device), given.are_pairs);
  }
  const auto result = on_device.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

TEST_P(GqaSlices, AreAllMergedWithTheSameBitsEveryTime) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  for (const bool watched : {true, false}) expect_all_are_merged(GetParam(), watched);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, GqaSlices,
    ::testing::Values(
        // 32 rows of 20 parts: a row for each of 20 blocks, or two; all threads of a block have the same row.
        SlicesCase{"gqa_decode:heads_per_kv=4,kv=int4_rows,groups=4,family=sm90",
                   {{"batch", 1}, {"context", 1000}, {"kv_heads", 8}, {"splits", 20}, {"lse", 1}}},
        // 3 parts of 56 rows, more than threads have at a time.
        SlicesCase{"gqa_decode:heads_per_kv=7,kv=int4_rows,groups=4,family=sm90",
                   {{"batch", 2}, {"context", 700}, {"kv_heads", 8}, {"splits", 3}, {"lse", 1}}},
        // 40 parts of 5 rows, each by ten groups of 24 threads.
        SlicesCase{"gqa_decode:head_dim=96,heads_per_kv=5,family=sm90",
                   {{"batch", 1}, {"context", 5000}, {"kv_heads", 1}, {"splits", 40}, {"lse", 1}}},
        // Heads of a sequence in two head groups, the last of which has fewer.
        SlicesCase{"gqa_decode:head_dim=256,heads_per_kv=9,family=sm90",
                   {{"batch", 1}, {"context", 3000}, {"kv_heads", 1}, {"splits", 20}, {"lse", 1}}},
        // Three parts by blocks that have up to two: the end of one sequence, then the beginning of the next.
        SlicesCase{"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90",
                   {{"batch", 5}, {"context", 1700}, {"kv_heads", 1}, {"splits", 3}, {"lse", 1}}},
        SlicesCase{"gqa_decode:heads_per_kv=8,family=sm90",
                   {{"batch", 9}, {"context", 3000}, {"kv_heads", 1}, {"ragged", 1}, {"lse", 1}}},
        // Pairs: the CPU device has four multiprocessors, so two sequences' blocks are as many. The cases have 56
        // rows, more than threads hold at a time; channels that are no power of two; columns in groups of warps;
        // warpgroups; pages; a sequence so short that a block has no part of it; and lengths on the device, which the
        // kernel finds to make pairs or not.
        SlicesCase{"gqa_decode:heads_per_kv=7,kv=int4_rows,groups=4,family=sm90",
                   {{"batch", 2}, {"context", 700}, {"kv_heads", 8}, {"splits", 2}, {"lse", 1}},
                   true},
        SlicesCase{"gqa_decode:head_dim=96,heads_per_kv=5,family=sm90",
                   {{"batch", 2}, {"context", 900}, {"kv_heads", 1}, {"splits", 2}, {"lse", 1}},
                   true},
        SlicesCase{"gqa_decode:heads_per_kv=4,query_tokens=4,family=sm90",
                   {{"batch", 2}, {"context", 900}, {"kv_heads", 1}, {"splits", 2}, {"lse", 1}},
                   true},
        SlicesCase{"gqa_decode:heads_per_kv=20,family=sm90",
                   {{"batch", 2}, {"context", 900}, {"kv_heads", 1}, {"splits", 2}, {"lse", 1}},
                   true},
        SlicesCase{"gqa_decode:head_dim=256,heads_per_kv=8,cache=paged,family=sm90",
                   {{"batch", 2}, {"context", 900}, {"kv_heads", 1}, {"page_size", 16}, {"splits", 2}, {"lse", 1}},
                   true},
        SlicesCase{"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90",
                   {{"batch", 2}, {"context", 200}, {"kv_heads", 1}, {"splits", 2}, {"lse", 1}},
                   true},
        SlicesCase{"gqa_decode:heads_per_kv=8,kv=fp8_e4m3,family=sm90",
                   {{"batch", 2}, {"context", 1900}, {"kv_heads", 1}, {"lengths", 1}, {"lse", 1}},
                   true},
        SlicesCase{"gqa_decode:heads_per_kv=8,kv=fp8_e4m3,family=sm90",
                   {{"batch", 2}, {"context", 1900}, {"kv_heads", 1}, {"ragged", 1}, {"lse", 1}}}));

}  // namespace
}  // namespace cubit::tests
