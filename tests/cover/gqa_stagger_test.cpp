// gqa_decode whose blocks begin in the middle of their segments, as they do over rows of a multiple of five bytes on a
// device whose memory has five stacks, which the CPU device says of itself: every format, of five KV heads; segments of
// one stage and of many, the end of a sequence in the middle of a walk, and lengths that the kernel divides itself.
// Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

class GqaStagger : public ::testing::TestWithParam<const char*> {};

TEST_P(GqaStagger, ComputesTheReference) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string descriptor = std::string("gqa_decode:family=sm90,") + GetParam();
  const Device device("cpu:sm_90a");
  const Kernel kernel = engine().get(descriptor, "cpu:sm_90a");
  for (const char* const lengths : {"ragged", "lengths"}) {
    SCOPED_TRACE(lengths);
    const Problem problem =
        Problem::random(descriptor, {{"batch", 3}, {"context", 1300}, {"kv_heads", 5}, {lengths, 1}, {"lse", 1}}, 1);
    DeviceCase on_device(device, problem);
    const void* const arguments = on_device.arguments();
    const GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
    kernel.launch(arguments, {.device = &device, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
    device.synchronise(nullptr);
    on_device.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GqaStagger,
                         ::testing::Values("heads_per_kv=8", "heads_per_kv=20", "heads_per_kv=3,kv=int4_rows,groups=4",
                                           "heads_per_kv=8,kv=int4_rows,groups=8",
                                           "heads_per_kv=8,kv=int4_rows,groups=2,alignment=8",
                                           "heads_per_kv=8,kv=int4_rows,alignment=4", "heads_per_kv=8,kv=int8_split",
                                           "heads_per_kv=8,kv=fp8_e4m3"));

}  // namespace
}  // namespace cubit::tests
