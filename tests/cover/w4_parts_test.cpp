// w4a16_gemm whose k is cut in more parts than the last warp has in flight together, an even number of them in pairs of
// blocks, with rows that end inside a block of 8 and inside the row tiles that are merged together; and whose blocks
// have all of k, in parts that are longer than a ring of stages. Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

/// Columns that end inside a strip; of awq, whose rows must be multiples of 16 bytes, behind one.
int columns_of(const std::string& descriptor) {
  if (descriptor.find("awq") == std::string::npos || descriptor.find("alignment=4") != std::string::npos) return 144;
  return descriptor.find("silu_gate") == std::string::npos ? 160 : 192;
}

/// A descriptor and its rows.
class W4Parts : public ::testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(W4Parts, ManyBecomeOneProductWithTheSameBitsEveryTime) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto [descriptor, rows] = GetParam();
  const Device device("cpu:sm_90a");
  device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(descriptor, "cpu:sm_90a");
  for (const double parts : {5, 9, 10}) {
    SCOPED_TRACE(parts);
    const Problem problem = Problem::random(
        descriptor, {{"m", rows}, {"n", columns_of(descriptor)}, {"k", 1280}, {"decomposition", 2}, {"splits", parts}},
        1);
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
    const auto left = workspace.download();
    EXPECT_EQ(std::count(left.begin(), left.begin() + CUBIT_WORKSPACE_ZEROED_BYTES, 0), CUBIT_WORKSPACE_ZEROED_BYTES);
    on_device.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, W4Parts,
                         ::testing::Values(std::pair{"w4a16_gemm:tile_m=64", 37},
                                           std::pair{"w4a16_gemm:group_size=32,element=bf16,tile_m=64", 70},
                                           std::pair{"w4a16_gemm:tile_m=32,function=silu_gate", 19},
                                           std::pair{"w4a16_gemm:tile_m=16", 9},
                                           std::pair{"w4a16_gemm:group_size=32,tile_n=64", 13},
                                           std::pair{"w4a16_gemm:format=symmetric,tile_m=8,tile_n=128", 9},
                                           std::pair{"w4a16_gemm:element=bf16,tile_n=96", 13},
                                           std::pair{"w4a16_gemm:tile_n=160", 9},
                                           std::pair{"w4a16_gemm:format=awq,tile_n=128,function=silu_gate", 13}));

class W4Teams : public ::testing::TestWithParam<const char*> {};

TEST_P(W4Teams, GoRoundTheirRingsAndAddUpInOneBlock) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_90a");
  device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(GetParam(), "cpu:sm_90a");
  // Of 8 teams the first three have a stage more than the others, none at all, and a last stage that is not whole.
  for (const double k : {128 * (8 * 7 + 3), 128 * 3, 128 * 8 * 7 - 96}) {
    SCOPED_TRACE(k);
    const Problem problem =
        Problem::random(GetParam(), {{"m", 13}, {"n", columns_of(GetParam())}, {"k", k}, {"decomposition", 1}}, 1);
    DeviceCase on_device(device, problem);
    const void* const arguments = on_device.arguments();
    EXPECT_EQ(kernel.workspace(arguments, &device), 0U);
    kernel.launch(arguments, {.device = &device});
    on_device.expect_guards_intact();
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, W4Teams,
    ::testing::Values("w4a16_gemm:tile_m=8,tile_n=64,group_size=32,family=sm80",
                      "w4a16_gemm:tile_n=64,group_size=32,function=silu_gate",
                      "w4a16_gemm:format=awq,group_size=32,tile_n=64",
                      "w4a16_gemm:format=awq,group_size=32,element=bf16,tile_n=128",
                      "w4a16_gemm:format=awq,group_size=all,tile_m=8,tile_n=224",
                      "w4a16_gemm:format=awq,group_size=32,tile_n=128,function=silu_gate",
                      "w4a16_gemm:format=awq,group_size=all,tile_n=32,alignment=4",
                      "w4a16_gemm:bits=8,group_size=32,element=bf16,tile_n=64", "w4a16_gemm:group_size=32,tile_n=128",
                      "w4a16_gemm:format=awq,group_size=32,tile_n=160",
                      "w4a16_gemm:group_size=32,element=bf16,tile_n=160", "w4a16_gemm:group_size=32,tile_m=8,tile_n=96",
                      "w4a16_gemm:format=awq,group_size=all,tile_n=96", "w4a16_gemm:group_size=all,tile_n=224",
                      "w4a16_gemm:tile_m=8,group_size=32,tile_n=224",
                      "w4a16_gemm:group_size=32,element=bf16,tile_n=32,family=sm90",
                      "w4a16_gemm:format=symmetric,group_size=all,tile_m=8,tile_n=128",
                      "w4a16_gemm:group_size=32,tile_n=128,function=silu_gate",
                      "w4a16_gemm:group_size=all,tile_n=128,function=silu_gate",
                      "w4a16_gemm:tile_m=8,group_size=32,tile_n=128,function=silu_gate,element=bf16"));

}  // namespace
}  // namespace cubit::tests
