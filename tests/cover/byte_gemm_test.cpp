// w8a8_gemm's families sm90_persistent and sm75 on the CPU device: every tile of rows, every type of output, few and
// many rows, every decomposition, and stages that end beyond k. Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kHopper = "cpu:sm_90a";
constexpr const char* kTuring = "cpu:sm_75";

struct ByteCase {
  std::string fields;
  int m;
  int n;
  int k;
  int decomposition;
  const char* device = kHopper;
};

void PrintTo(const ByteCase& one, std::ostream* out) { *out << one.fields << " m=" << one.m; }

void launch(const Device& device, const Kernel& kernel, const void* arguments) {
  const GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
  kernel.launch(arguments, {.device = &device,
                            .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                            .workspace_bytes = workspace.bytes()});
  EXPECT_TRUE(workspace.guards_intact());
}

/// Launches the kernel of `descriptor` on data of `problem`, and compares.
void expect_good(const std::string& descriptor, const Problem& problem, const char* name = kHopper) {
  const Device device(name);
  device.watch(CUBIT_WATCH_MEMORY);
  DeviceCase on_device(device, problem);
  launch(device, engine().get(descriptor, name), on_device.arguments());
  on_device.expect_guards_intact();
  const auto result = on_device.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

class ByteGemm : public ::testing::TestWithParam<ByteCase> {};

TEST_P(ByteGemm, ComputesTheReference) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto& [fields, m, n, k, decomposition, device] = GetParam();
  const std::string descriptor = "w8a8_gemm:" + fields;
  const int splits = decomposition == 2 ? 2 : 0;
  expect_good(
      descriptor,
      Problem::random(
          descriptor,
          {{"m", m}, {"n", n}, {"k", k}, {"decomposition", decomposition}, {"splits", splits}, {"pattern", 1}}, 3),
      device);
}

INSTANTIATE_TEST_SUITE_P(
    Tiles, ByteGemm,
    ::testing::Values(ByteCase{"tile_m=16", 1, 8, 16, 1}, ByteCase{"tile_m=16,output=int8,bias=true", 17, 264, 272, 2},
                      ByteCase{"tile_m=32,output=int32", 33, 264, 400, 3},
                      ByteCase{"tile_m=32,output=fp8_e4m3,function=silu_gate,residual=true", 31, 272, 144, 2},
                      ByteCase{"tile_m=64,output=bf16,activation_scale=tensor", 130, 520, 272, 0},
                      ByteCase{"tile_m=128,output=int32", 131, 136, 272, 2},
                      ByteCase{"tile_m=128,function=silu_gate,bias=true,residual=true", 129, 272, 400, 3},
                      ByteCase{"tile_m=192,output=int8,weight_scale=tensor,residual=true", 193, 280, 272, 1},
                      ByteCase{"tile_m=128,zero_points=true,bias=true", 131, 264, 272, 2},
                      ByteCase{"tile_m=32,zero_points=true,output=int8,activation_scale=tensor", 33, 280, 144, 1},
                      ByteCase{"tile_m=128,second_output=int8,residual=true", 131, 264, 272, 1},
                      ByteCase{"family=sm90_persistent,tile_m=32,second_output=fp8_e4m3,function=silu_gate", 33, 272,
                               144, 2},
                      ByteCase{"tile_m=256", 257, 264, 400, 3},
                      ByteCase{"tile_m=256,output=int8,function=relu", 259, 272, 272, 2},
                      ByteCase{"element=fp8_e4m3,accumulate=promoted,tile_m=16,output=int8", 3, 24, 272, 1},
                      ByteCase{"element=fp8_e4m3,accumulate=promoted,tile_m=128,bias=true", 129, 264, 400, 3}));

/// mma.m8n8k16 of sm_75, and copies through registers, which later architectures take by name.
INSTANTIATE_TEST_SUITE_P(
    CopiesThroughRegisters, ByteGemm,
    ::testing::Values(ByteCase{"tile_m=8,output=int32", 1, 8, 16, 1, kTuring},
                      ByteCase{"tile_m=16,function=silu_gate,bias=true,residual=true", 17, 272, 272, 2, kTuring},
                      ByteCase{"tile_m=64,output=int8,activation_scale=tensor", 67, 264, 400, 3, kTuring},
                      ByteCase{"tile_m=16,second_output=fp8_e4m3,output=bf16", 17, 264, 272, 2, kTuring},
                      ByteCase{"tile_m=8,zero_points=true,output=int8,function=relu", 9, 264, 272, 2, kTuring},
                      ByteCase{"tile_m=32,family=sm75", 33, 264, 272, 2}));

/// A quantiser writes NaN as the scale of a token that has a value that is not finite, and 0 as its zero point. The
/// token's outputs are NaN, and no other token's outputs change.
class ByteGemmNan : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ByteGemmNan, ReachesItsOwnTokenAlone) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr int kColumns = 24;
  constexpr int kTokens = 5;
  constexpr int kNanToken = 3;
  const auto [descriptor, name] = GetParam();
  const Problem problem = Problem::random(descriptor, {{"m", kTokens}, {"n", kColumns}, {"k", 48}}, 3);
  const Device device(name);
  DeviceCase on_device(device, problem);
  const auto inputs = problem.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (std::string_view(inputs[i].name) != "activation_scales") continue;
    std::vector<float> scales(static_cast<const float*>(inputs[i].data),
                              static_cast<const float*>(inputs[i].data) + kTokens);
    scales[kNanToken] = std::numeric_limits<float>::quiet_NaN();
    on_device.input(i).fill(scales.data());
  }
  launch(device, engine().get(descriptor, name), on_device.arguments());
  const auto bytes = on_device.output(0).download();
  for (int i = 0; i < kTokens * kColumns; ++i) {
    std::uint16_t half;
    std::memcpy(&half, bytes.data() + sizeof half * i, sizeof half);
    EXPECT_EQ((half & 0x7fff) > 0x7c00, i / kColumns == kNanToken) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ByteGemmNan,
                         ::testing::Values(std::pair{"w8a8_gemm:tile_m=8,zero_points=true", kTuring},
                                           std::pair{"w8a8_gemm:tile_m=8", kHopper},
                                           std::pair{"w8a8_gemm:tile_m=16,zero_points=true,family=sm90_persistent",
                                                     kHopper}));

/// Normal data lose little in few steps, so that accumulate=fast keeps the tolerance that promoted sums have.
TEST(ByteGemmSums, FastSumsOfFewStepsKeepTheToleranceOfPromotedOnes) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Problem problem = Problem::random("w8a8_gemm:element=fp8_e4m3,accumulate=promoted",
                                          {{"m", 35}, {"n", 264}, {"k", 272}, {"decomposition", 2}}, 3);
  for (const char* const tile : {"8", "16", "32", "64", "128", "192", "256"})
    expect_good(std::string("w8a8_gemm:element=fp8_e4m3,tile_m=") + tile, problem);
}

}  // namespace
}  // namespace cubit::tests
