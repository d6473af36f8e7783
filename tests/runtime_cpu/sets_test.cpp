// Tests sets of w4a16_gemm kernels on the CPU device: one handle computes any number of rows without compiling, with
// one cache entry per member, and with batch_invariant=true a row's bits do not depend on the member.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/cpu_engine.hpp"
#include "tests/support/gemm_batch.hpp"

namespace cubit::tests {
namespace {

using nlohmann::json;

class CpuSets : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  }
  std::string architecture() const { return GetParam(); }
  std::string target() const { return "cpu:" + architecture(); }
};

TEST_P(CpuSets, OneHandleComputesEveryNumberOfRows) {
  const Device device(target());
  device.watch(CUBIT_WATCH_MEMORY);
  const std::string text = "w4a16_gemm:format=awq,group_size=32";
  const Kernel set = engine().get(text, target());
  const auto compiles = engine().counters().compiles;
  std::set<std::size_t> taken;
  for (const int m : {1, 8, 17, 64, 130, 700}) {
    const Problem problem = Problem::random(text, {{"m", m}, {"n", 320}, {"k", 256}}, 5);
    DeviceCase on_device(device, problem);
    const GuardedBuffer workspace(device, set.workspace(on_device.arguments(), &device), 0);
    taken.insert(set.choose(on_device.arguments(), &device));
    set.launch(on_device.arguments(), {.device = &device,
                                       .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                                       .workspace_bytes = workspace.bytes()});
    device.synchronise(nullptr);
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << m << " rows: " << result.worst;
    on_device.expect_guards_intact();
  }
  EXPECT_GT(taken.size(), 1u) << "rows choose the member";
  EXPECT_TRUE(architecture() != "sm_90a" || taken.contains(set.member_count() - 1)) << "many rows take many rows' tile";
  EXPECT_EQ(engine().counters().compiles, compiles) << "a new size never compiles";
}

// One workspace, sized for the most rows, serves all launches.
TEST_P(CpuSets, BatchInvariantRowsHaveTheSameBitsForEveryNumberOfRows) {
  constexpr int kMost = 130;
  const Device device(target());
  for (const W4a16Gemm& set :
       {W4a16Gemm{.batch_invariant = true},
        W4a16Gemm{.format = W4Format::awq, .group_size = 32, .bias = true, .batch_invariant = true}}) {
    SCOPED_TRACE(set.text());
    const Kernel kernel = engine().get(set.text(), target());
    EXPECT_GT(kernel.member_count(), 1u);
    const GemmBatch batch(device, set, kMost, 64, 768);
    const auto all = batch.compute_all(kernel);
    batch.expect_good();
    for (const int count : {1, 8, 17, 64}) {
      const auto first = batch.compute(kernel, 0, count);
      EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin())) << count << " rows";
      const auto last = batch.compute(kernel, kMost - count, count);
      EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - count)) << count << " rows";
    }
    for (std::size_t i = 0; i < kernel.member_count(); ++i)
      EXPECT_TRUE(batch.compute_all(kernel.member(i)) == all) << kernel.member(i).describe();
  }
}

TEST_P(CpuSets, BatchInvariantRowsHaveTheSameBitsAmongThousands) {
  constexpr int kMost = 8192;
  const Device device(target());
  const W4a16Gemm set{.batch_invariant = true};
  const Kernel kernel = engine().get(set.text(), target());
  const GemmBatch batch(device, set, kMost, 16, 384);
  const auto all = batch.compute_all(kernel);
  batch.expect_good();
  for (const int count : {1, 16, 33, 1000}) {
    const auto last = batch.compute(kernel, kMost - count, count);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - count)) << count << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CpuSets, ::testing::Values("sm_75", "sm_80", "sm_90a"),
                         [](const auto& given) { return std::string(given.param); });

TEST(CpuSetsCache, HoldsOneEntryPerMember) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("cubit_sets_" + std::to_string(getpid()));
  const std::string text = "w4a16_gemm:tile_n=256";
  const auto texts = json::parse(members(text, "sm_80")).get<std::vector<std::string>>();
  {
    const Engine first({.cache_dir = folder.c_str()});
    EXPECT_EQ(first.get(text, "cpu:sm_80").member_count(), texts.size());
    EXPECT_EQ(first.counters().compiles, texts.size());
    const json listed = json::parse(first.cache_list());
    std::set<std::string> stored;
    for (const json& entry : listed["entries"]) stored.insert(entry["descriptor"].get<std::string>());
    EXPECT_EQ(stored, std::set<std::string>(texts.begin(), texts.end()));
    const Engine second({.cache_dir = folder.c_str()});
    second.get(text, "cpu:sm_80");
    EXPECT_EQ(second.counters().compiles, 0u);
    EXPECT_EQ(second.counters().disk_hits, texts.size());
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cubit::tests
