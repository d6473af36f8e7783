// w4a16_gemm whose k is cut in more parts than the last warp has in flight together, with rows that end inside a block
// of 8 and inside the row tiles that are merged together. Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include <utility>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

/// A descriptor and its rows.
class W4Parts : public ::testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(W4Parts, ManyBecomeOneProductWithTheSameBitsEveryTime) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto [descriptor, rows] = GetParam();
  const Device device("cpu:sm_90a");
  device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(descriptor, "cpu:sm_90a");
  for (const double parts : {5, 9}) {
    SCOPED_TRACE(parts);
    const Problem problem =
        Problem::random(descriptor, {{"m", rows}, {"n", 144}, {"k", 1152}, {"decomposition", 2}, {"splits", parts}}, 1);
    DeviceCase on_device(device, problem);
    const void* const arguments = on_device.arguments();
    const GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
    ASSERT_GT(workspace.bytes(), 0U);
    const auto launch = [&] {
      kernel.launch(arguments,
                    {.device = &device, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
      return on_device.output(0).download();
    };
    const auto once = launch();
    EXPECT_EQ(launch(), once) << "the counters were not zero again, or the order of parts changed";
    on_device.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, W4Parts,
                         ::testing::Values(std::pair{"w4a16_gemm:tile_m=64", 37},
                                           std::pair{"w4a16_gemm:tile_m=32,function=silu_gate", 19},
                                           std::pair{"w4a16_gemm:tile_m=16", 9}));

}  // namespace
}  // namespace cubit::tests
