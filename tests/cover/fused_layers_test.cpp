// w4a16_gemm with two and three layers of different numbers of columns on the CPU device: every weight format, group
// size, epilogue and schedule of families sm75 and sm80. Layers end in the middle of a tile. Skipped where there is no
// NVRTC.
#include <cubit/w4a16_gemm.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

struct LayersCase {
  std::string fields;
  std::vector<int> columns;  ///< of each layer
  int m;
  int k;
  int decomposition = 0;
  int splits = 0;
  const char* device = "cpu:sm_80";
};

void PrintTo(const LayersCase& one, std::ostream* out) { *out << one.fields << " on " << one.device; }

Problem problem_of(const LayersCase& one, const std::string& text) {
  Numbers sizes = {{"m", one.m}, {"n", one.columns[0]}, {"n_2", one.columns[1]}, {"k", one.k}, {"pattern", one.m % 3}};
  if (one.columns.size() > 2) sizes.emplace_back("n_3", one.columns[2]);
  sizes.emplace_back("decomposition", one.decomposition);
  sizes.emplace_back("splits", one.splits);
  return Problem::random(text, sizes, 5);
}

class FusedLayers : public ::testing::TestWithParam<LayersCase> {};

TEST_P(FusedLayers, ComputesTheReference) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const LayersCase& one = GetParam();
  const std::string text =
      "w4a16_gemm:layers=" + std::to_string(one.columns.size()) + (one.fields.empty() ? "" : ",") + one.fields;
  const Device device(one.device);
  device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(text, one.device);
  const Problem problem = problem_of(one, text);
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

INSTANTIATE_TEST_SUITE_P(
    Formats, FusedLayers,
    ::testing::Values(LayersCase{"tile_m=16,tile_n=256", {264, 96, 40}, 11, 136, CUBIT_W4A16_DATA_PARALLEL},
                      LayersCase{"format=gptq_v2,tile_m=8,tile_n=256,group_size=32", {40, 520}, 7, 264},
                      LayersCase{"format=awq,tile_m=16,tile_n=256,element=bf16", {256, 32, 288}, 17, 200},
                      LayersCase{"format=awq,alignment=4,tile_m=8,tile_n=64,group_size=64", {8, 72, 64}, 3, 392},
                      LayersCase{"format=symmetric,tile_m=32,tile_n=256,group_size=16", {8, 8, 264}, 33, 136},
                      LayersCase{"tile_m=16,tile_n=256,group_size=all", {136, 264}, 5, 392},
                      LayersCase{"bits=8,tile_m=16,tile_n=256", {264, 24, 96}, 11, 136},
                      LayersCase{"bits=8,format=symmetric,tile_m=8,tile_n=32,group_size=64", {32, 40, 8}, 1, 520}));

INSTANTIATE_TEST_SUITE_P(
    Schedules, FusedLayers,
    ::testing::Values(
        LayersCase{"tile_m=16,tile_n=256", {264, 96, 40}, 35, 392, CUBIT_W4A16_SPLIT_K, 3},
        LayersCase{"format=awq,tile_m=8,tile_n=256", {32, 288}, 9, 520, CUBIT_W4A16_STREAM_K},
        LayersCase{"tile_m=16,tile_n=256,atomic_splits=true", {72, 264, 8}, 17, 392, CUBIT_W4A16_SPLIT_K_ATOMIC, 3},
        LayersCase{"format=symmetric,tile_m=8,tile_n=256,batch_invariant=true", {96, 40, 264}, 9, 520},
        LayersCase{"tile_m=64,tile_n=256", {264, 96}, 65, 264, CUBIT_W4A16_SPLIT_K, 2}));

INSTANTIATE_TEST_SUITE_P(
    Epilogues, FusedLayers,
    ::testing::Values(LayersCase{"tile_m=16,tile_n=256,function=silu_gate", {152, 152}, 11, 264},
                      LayersCase{"format=awq,tile_m=8,tile_n=64,function=silu_gate,bias=true", {32, 32}, 7, 200},
                      LayersCase{
                          "format=awq,tile_m=8,tile_n=256,function=silu_gate,bias=true,residual=true,element=bf16",
                          {96, 96},
                          9,
                          392,
                          CUBIT_W4A16_SPLIT_K,
                          2},
                      LayersCase{"tile_m=16,tile_n=64,bias=true,residual=true", {8, 96, 72}, 5, 200},
                      LayersCase{"bits=8,tile_m=32,tile_n=256,bias=true,function=gelu_tanh", {264, 40}, 33, 136},
                      LayersCase{"tile_m=16,tile_n=256,activation_order=true,bias=true", {264, 96, 40}, 11, 264},
                      LayersCase{"tile_m=8,tile_n=256,activation_order=true,function=silu_gate", {136, 136}, 3, 136}));

INSTANTIATE_TEST_SUITE_P(
    OtherDevices, FusedLayers,
    ::testing::Values(LayersCase{"tile_m=16,tile_n=256,bias=true", {264, 96, 40}, 11, 264, 2, 2, "cpu:sm_75"},
                      LayersCase{
                          "format=awq,tile_m=8,tile_n=256,function=silu_gate", {96, 96}, 9, 136, 0, 0, "cpu:sm_75"},
                      LayersCase{"tile_m=8", {264, 96, 40}, 5, 264, 0, 0, "cpu:sm_90a"}));

}  // namespace
}  // namespace cubit::tests
