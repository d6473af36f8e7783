// w4a16_gemm with dense weights on the CPU device: every tile of rows, both types, epilogues, few and many rows, every
// decomposition, slabs that end beyond k, and rows of weights that lie apart. Skipped where there is no NVRTC.
#include <cubit/w4a16_gemm.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kDevice = "cpu:sm_90a";
constexpr const char* kDense = "w4a16_gemm:format=dense,";

struct DenseCase {
  std::string fields;
  int m;
  int n;
  int k;
  int decomposition;
};

void PrintTo(const DenseCase& one, std::ostream* out) { *out << one.fields << " m=" << one.m; }

void launch_dense(const Device& device, const Kernel& kernel, const void* arguments) {
  const GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
  kernel.launch(arguments, {.device = &device,
                            .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                            .workspace_bytes = workspace.bytes()});
  EXPECT_TRUE(workspace.guards_intact());
}

class DenseGemm : public ::testing::TestWithParam<DenseCase> {};

TEST_P(DenseGemm, ComputesTheReference) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto& [fields, m, n, k, decomposition] = GetParam();
  const Device device(kDevice);
  device.watch(CUBIT_WATCH_MEMORY);
  const Problem problem = Problem::random(
      kDense + fields,
      {{"m", m}, {"n", n}, {"k", k}, {"decomposition", decomposition}, {"splits", decomposition == 2 ? 2 : 0}}, 3);
  DeviceCase on_device(device, problem);
  launch_dense(device, engine().get(kDense + fields, kDevice), on_device.arguments());
  on_device.expect_guards_intact();
  const auto result = on_device.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

INSTANTIATE_TEST_SUITE_P(
    Tiles, DenseGemm,
    ::testing::Values(DenseCase{"element=bf16", 1, 8, 8, 1}, DenseCase{"bias=true", 17, 264, 520, 2},
                      DenseCase{"function=silu_gate,residual=true", 16, 272, 328, 3},
                      DenseCase{"tile_m=32,element=bf16,function=silu_gate", 33, 144, 200, 2},
                      DenseCase{"tile_m=32,residual=true", 31, 392, 264, 3}, DenseCase{"tile_m=64", 1, 8, 8, 1},
                      DenseCase{"tile_m=64,element=bf16,bias=true", 63, 264, 136, 2},
                      DenseCase{"tile_m=64,element=bf16,function=silu_gate", 2, 16, 72, 0},
                      DenseCase{"tile_m=80,function=silu_gate", 81, 272, 200, 0},
                      DenseCase{"tile_m=128,element=bf16,function=silu_gate,bias=true,residual=true", 300, 272, 328, 3},
                      DenseCase{"tile_m=144,residual=true", 145, 136, 392, 3},
                      DenseCase{"tile_m=192,function=gelu", 193, 264, 72, 1},
                      DenseCase{"tile_m=256,element=bf16,residual=true", 257, 136, 648, 2},
                      DenseCase{"tile_m=256,function=silu_gate,bias=true", 17, 272, 264, 3}));

/// The gaps between rows hold NaNs, which a slab that ends beyond k must not read.
TEST(DenseGemmRows, MayLieApart) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr std::int64_t kColumns = 144;
  constexpr std::int64_t kDepth = 200;
  constexpr std::int64_t kApart = 224;
  const Device device(kDevice);
  device.watch(CUBIT_WATCH_MEMORY);
  for (const char* fields : {"tile_m=64", "tile_m=128,function=silu_gate"}) {
    SCOPED_TRACE(fields);
    const Problem problem =
        Problem::random(kDense + std::string(fields), {{"m", 9}, {"n", kColumns}, {"k", kDepth}}, 5);
    DeviceCase on_device(device, problem);
    const auto* const dense = static_cast<const std::uint16_t*>(problem.inputs()[1].data);
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(kColumns * kApart), 0x7fff);
    for (std::int64_t row = 0; row < kColumns; ++row)
      std::copy_n(dense + row * kDepth, kDepth, rows.begin() + row * kApart);
    const GuardedBuffer weights(device, 2 * rows.size(), 0);
    device.upload(weights.data(), rows.data(), weights.bytes());
    auto arguments = *static_cast<const cubit_w4a16_gemm_arguments*>(on_device.arguments());
    arguments.weight = weights.data();
    arguments.weight_stride = kApart;
    launch_dense(device, engine().get(kDense + std::string(fields), kDevice), &arguments);
    on_device.expect_guards_intact();
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

}  // namespace
}  // namespace cubit::tests
