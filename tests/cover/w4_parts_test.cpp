// w4a16_gemm whose k is cut in more parts than the last warp has in flight together, an even number of them in pairs of
// blocks, with rows that end inside a block of 8 and inside the row tiles that are merged together; and whose blocks
// have all of k, in parts that are longer than a ring of stages; and scales that are as large as may be. Skipped where
// there is no NVRTC.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
                         ::testing::Values(std::pair{"w4a16_gemm:tile_m=64,tile_n=256", 37},
                                           std::pair{"w4a16_gemm:group_size=32,element=bf16,tile_m=64,tile_n=256", 70},
                                           std::pair{"w4a16_gemm:tile_m=32,tile_n=256,function=silu_gate", 19},
                                           std::pair{"w4a16_gemm:tile_m=16,tile_n=256", 9},
                                           std::pair{"w4a16_gemm:group_size=32,tile_m=16,tile_n=64", 13},
                                           std::pair{"w4a16_gemm:format=symmetric,tile_m=8,tile_n=128", 9},
                                           std::pair{"w4a16_gemm:element=bf16,tile_m=16,tile_n=96", 13},
                                           std::pair{"w4a16_gemm:tile_m=16,tile_n=160", 9},
                                           std::pair{"w4a16_gemm:format=awq,tile_m=16,tile_n=128,function=silu_gate",
                                                     13}));

// In the order in which they come, in a workspace that has other sums in it: the first to come stores, and the last
// leaves the counters zero. Of 9 rows some lanes have none.
TEST(W4AtomicParts, AddUpOverWhatWasThereAndLeaveCountersZero) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  for (const auto& [text, architecture] :
       {std::pair{"w4a16_gemm:tile_m=16,tile_n=256,function=silu_gate,bias=true,element=bf16,atomic_splits=true",
                  "cpu:sm_80"},
        {"w4a16_gemm:tile_m=8,tile_n=256,atomic_splits=true", "cpu:sm_90a"}}) {
    SCOPED_TRACE(text);
    const Device device(architecture);
    device.watch(CUBIT_WATCH_MEMORY);
    const Kernel kernel = engine().get(text, architecture);
    const Problem problem =
        Problem::random(text, {{"m", 9}, {"n", 272}, {"k", 640}, {"decomposition", 4}, {"splits", 5}}, 1);
    DeviceCase on_device(device, problem);
    const GuardedBuffer workspace(device, kernel.workspace(on_device.arguments(), &device), 0x7f);
    const std::vector<unsigned char> zeros(CUBIT_WORKSPACE_ZEROED_BYTES, 0);
    device.upload(workspace.data(), zeros.data(), zeros.size());
    for (int launch = 0; launch < 2; ++launch) {
      const std::vector<unsigned char> nothing(on_device.output(0).bytes(), 0xff);
      device.upload(on_device.output(0).data(), nothing.data(), nothing.size());
      kernel.launch(on_device.arguments(),
                    {.device = &device, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
      const auto result = on_device.compare(problem);
      EXPECT_LE(result.error, result.tolerance) << result.worst;
      const auto left = workspace.download();
      EXPECT_TRUE(std::equal(zeros.begin(), zeros.end(), left.begin()));
    }
    on_device.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
  }
}

std::size_t index_of(const std::vector<cubit_tensor>& tensors, std::string_view name) {
  std::size_t i = 0;
  while (tensors[i].name != name) ++i;
  return i;
}

// With activation order weights become numbers of fp16 before their products: the largest scale that
// <cubit/w4a16_gemm.hpp> allows, of weights that are farthest from their zeros.
TEST(W4Scales, OfActivationOrderMayBeAsLargeAsAnFp16OfTheWeightIs) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr const char* kText = "w4a16_gemm:group_size=32,tile_m=8,tile_n=256,activation_order=true";
  constexpr std::uint16_t kScale = 0x6bff;  // 4094
  const Device device("cpu:sm_80");
  const Kernel kernel = engine().get(kText, "cpu:sm_80");
  const Problem random = Problem::random(kText, {{"m", 3}, {"n", 16}, {"k", 128}, {"pattern", 1}}, 1);
  std::vector<cubit_tensor> inputs = random.inputs();
  std::vector<std::uint16_t> scales(4 * 16, kScale);
  std::vector<std::uint32_t> zeros(4 * 2, 0xffffffff);  // 16, as gptq stores them
  std::vector<std::uint32_t> words(16 * 16);
  const cubit_tensor& qweight = inputs[index_of(inputs, "qweight")];
  std::memcpy(words.data(), qweight.data, 4 * words.size());
  words[0] = 0;  // 16 less than their zeros
  inputs[index_of(inputs, "scales")].data = scales.data();
  inputs[index_of(inputs, "qzeros")].data = zeros.data();
  inputs[index_of(inputs, "qweight")].data = words.data();
  const Problem problem(kText, inputs);
  DeviceCase on_device(device, problem);
  launch_once(device, kernel, on_device.arguments());
  const auto result = on_device.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

class W4WarpGroups : public ::testing::TestWithParam<const char*> {};

TEST_P(W4WarpGroups, GoRoundTheirRingsAndAddUpInOneBlock) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_90a");
  device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(GetParam(), "cpu:sm_90a");
  // Of 8 groups of warps, the first three have one stage more than the others; then some groups have no stage; then the
  // last stage is not whole.
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
    Kernels, W4WarpGroups,
    ::testing::Values("w4a16_gemm:tile_m=8,tile_n=64,group_size=32,family=sm80",
                      // With groups of 128 the table of scales holds all groups, and with groups of 32 it does not.
                      "w4a16_gemm:tile_m=8,tile_n=64,activation_order=true",
                      "w4a16_gemm:group_size=32,tile_m=8,tile_n=64,activation_order=true",
                      "w4a16_gemm:format=symmetric,element=bf16,tile_m=16,tile_n=32,activation_order=true",
                      "w4a16_gemm:tile_m=16,tile_n=64,group_size=32,function=silu_gate",
                      "w4a16_gemm:format=awq,group_size=32,tile_m=16,tile_n=64",
                      "w4a16_gemm:format=awq,group_size=32,element=bf16,tile_m=16,tile_n=128",
                      "w4a16_gemm:format=awq,group_size=all,tile_m=8,tile_n=224",
                      "w4a16_gemm:format=awq,group_size=32,tile_m=16,tile_n=128,function=silu_gate",
                      "w4a16_gemm:format=awq,group_size=all,tile_m=16,tile_n=32,alignment=4",
                      "w4a16_gemm:bits=8,group_size=32,element=bf16,tile_m=16,tile_n=64",
                      "w4a16_gemm:group_size=32,tile_m=16,tile_n=128",
                      "w4a16_gemm:format=awq,group_size=32,tile_m=16,tile_n=160",
                      "w4a16_gemm:group_size=32,element=bf16,tile_m=16,tile_n=160",
                      "w4a16_gemm:group_size=32,tile_m=8,tile_n=96",
                      "w4a16_gemm:format=awq,group_size=all,tile_m=16,tile_n=96",
                      "w4a16_gemm:group_size=all,tile_m=16,tile_n=224", "w4a16_gemm:tile_m=8,group_size=32,tile_n=224",
                      "w4a16_gemm:group_size=32,element=bf16,tile_m=16,tile_n=32,family=sm90",
                      "w4a16_gemm:format=symmetric,group_size=all,tile_m=8,tile_n=128",
                      "w4a16_gemm:group_size=32,tile_m=16,tile_n=128,function=silu_gate",
                      "w4a16_gemm:group_size=all,tile_m=16,tile_n=128,function=silu_gate",
                      "w4a16_gemm:tile_m=8,group_size=32,tile_n=128,function=silu_gate,element=bf16"));

}  // namespace
}  // namespace cubit::tests
