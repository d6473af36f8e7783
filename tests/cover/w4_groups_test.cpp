// w4a16_gemm on the CPU device where the last quantisation group is shorter than the others, in every kernel family and
// with every group size: one group that is shorter than a step, a last group that ends in the middle of a stage, and
// split-K slices of which the last has the shorter group. Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include <string>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

struct GroupCase {
  std::string fields;
  const char* device;
};

void PrintTo(const GroupCase& one, std::ostream* out) { *out << one.fields << " on " << one.device; }

/// Splits of k that every kernel has: none where a block computes all of k.
int splits_of(const std::string& fields) {
  const bool has_all_of_k = fields.find("tile_n=256") == std::string::npos;
  return has_all_of_k ? 0 : 2;
}

void expect_product(const Device& device, const Kernel& kernel, const Problem& problem) {
  DeviceCase on_device(device, problem);
  const GuardedBuffer workspace(device, kernel.workspace(on_device.arguments(), &device), 0);
  kernel.launch(on_device.arguments(), {.device = &device,
                                        .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                                        .workspace_bytes = workspace.bytes()});
  on_device.expect_guards_intact();
  EXPECT_TRUE(workspace.guards_intact());
  const auto result = on_device.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

class ShorterGroup : public ::testing::TestWithParam<GroupCase> {};

TEST_P(ShorterGroup, ComputesTheReference) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto& [fields, name] = GetParam();
  const std::string text = "w4a16_gemm:" + fields;
  const Device device(name);
  device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(text, name);
  for (const int k : {8, 72, 136, 376}) {
    SCOPED_TRACE(k);
    const int splits = k > 128 ? splits_of(fields) : 0;
    const int decomposition = splits > 0 ? 2 : 1;
    expect_product(
        device, kernel,
        Problem::random(
            text,
            {{"m", 11}, {"n", 96}, {"k", k}, {"pattern", k % 3}, {"decomposition", decomposition}, {"splits", splits}},
            static_cast<std::uint64_t>(k)));
  }
}

INSTANTIATE_TEST_SUITE_P(Sm75, ShorterGroup,
                         ::testing::Values(GroupCase{"tile_m=16,tile_n=256", "cpu:sm_75"},
                                           GroupCase{"format=awq,tile_m=8,tile_n=256", "cpu:sm_75"},
                                           GroupCase{"bits=8,group_size=64,tile_m=32,tile_n=256", "cpu:sm_75"},
                                           GroupCase{"group_size=16,tile_m=64,tile_n=256", "cpu:sm_75"},
                                           GroupCase{"format=symmetric,group_size=32,tile_m=64,tile_n=256",
                                                     "cpu:sm_75"}));

INSTANTIATE_TEST_SUITE_P(
    Sm80, ShorterGroup,
    ::testing::Values(GroupCase{"tile_m=8,tile_n=256", "cpu:sm_80"}, GroupCase{"tile_m=16,tile_n=64", "cpu:sm_80"},
                      GroupCase{"format=awq,element=bf16,tile_m=32,tile_n=256", "cpu:sm_80"},
                      GroupCase{"bits=8,tile_m=16,tile_n=32", "cpu:sm_80"},
                      GroupCase{"tile_m=64,tile_n=256,function=silu_gate", "cpu:sm_80"},
                      GroupCase{"group_size=64,tile_m=16,tile_n=256,activation_order=true", "cpu:sm_80"},
                      GroupCase{"group_size=32,tile_m=8,tile_n=64,activation_order=true", "cpu:sm_80"},
                      GroupCase{"bits=8,tile_m=16,tile_n=32,element=bf16,activation_order=true", "cpu:sm_86"},
                      GroupCase{"format=gptq_v2,group_size=32,tile_m=16,tile_n=256,batch_invariant=true",
                                "cpu:sm_80"}));

INSTANTIATE_TEST_SUITE_P(
    GroupsOf16, ShorterGroup,
    ::testing::Values(GroupCase{"group_size=16,tile_m=8,tile_n=256", "cpu:sm_80"},
                      GroupCase{"format=awq,group_size=16,tile_m=16,tile_n=256", "cpu:sm_80"},
                      GroupCase{"group_size=16,element=bf16,tile_m=16,tile_n=64", "cpu:sm_80"},
                      GroupCase{"format=awq,group_size=16,tile_m=8,tile_n=32", "cpu:sm_86"},
                      GroupCase{"format=symmetric,group_size=16,tile_m=64,tile_n=256", "cpu:sm_80"},
                      GroupCase{"bits=8,group_size=16,tile_m=32,tile_n=256,function=silu_gate", "cpu:sm_80"},
                      GroupCase{"group_size=16,tile_m=16,tile_n=256,activation_order=true", "cpu:sm_80"},
                      GroupCase{"format=gptq_v2,group_size=16,tile_m=32,tile_n=256,batch_invariant=true",
                                "cpu:sm_90a"}));

INSTANTIATE_TEST_SUITE_P(
    Sm90, ShorterGroup,
    ::testing::Values(GroupCase{"tile_m=32,tile_n=256", "cpu:sm_90a"}, GroupCase{"tile_m=64,tile_n=256", "cpu:sm_90a"},
                      GroupCase{"format=awq,group_size=64,tile_m=64,tile_n=256", "cpu:sm_90a"},
                      GroupCase{"format=symmetric,group_size=32,element=bf16,tile_m=32,tile_n=256", "cpu:sm_90a"},
                      GroupCase{"tile_m=8,tile_n=64", "cpu:sm_90a"},
                      GroupCase{"group_size=32,tile_m=16,tile_n=128", "cpu:sm_90a"},
                      GroupCase{"format=awq,group_size=64,tile_m=8,tile_n=96", "cpu:sm_90a"}));

INSTANTIATE_TEST_SUITE_P(
    Sm90Persistent, ShorterGroup,
    ::testing::Values(
        GroupCase{"tile_m=80,tile_n=256", "cpu:sm_90a"},
        GroupCase{"format=awq,group_size=64,tile_m=128,tile_n=256", "cpu:sm_90a"},
        GroupCase{"format=symmetric,group_size=32,element=bf16,tile_m=144,tile_n=256", "cpu:sm_90a"},
        GroupCase{"format=gptq_v2,tile_m=64,tile_n=256,family=sm90_persistent,function=silu_gate", "cpu:sm_90a"},
        GroupCase{"group_size=32,tile_m=80,tile_n=256,activation_order=true", "cpu:sm_90a"},
        GroupCase{"format=symmetric,element=bf16,tile_m=144,tile_n=256,activation_order=true", "cpu:sm_90a"},
        GroupCase{"group_size=16,tile_m=64,tile_n=256,activation_order=true,function=silu_gate", "cpu:sm_90a"}));

}  // namespace
}  // namespace cubit::tests
