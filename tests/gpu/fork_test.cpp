// Proves on a GPU: a child that is forked after its parent has used the GPU gets one sentence for every use of the GPU,
// and the parent notices nothing. Without a GPU the test is skipped.
#include <gmock/gmock.h>
#include <functional>

#include "tests/gpu/gpu_test.hpp"
#include "tests/support/child.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kDescriptor = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
const SuiteKernels kKernels("ForkGpu", [](const std::string&) { return std::vector<std::string>{kDescriptor}; });

class ForkGpu : public GpuTest {};

TEST_F(ForkGpu, EveryUseOfTheGpuInTheChildIsRefused) {
  const Kernel attend = kernel(kDescriptor);
  const Problem problem = Problem::random(kDescriptor, {{"batch", 2}, {"context", 300}, {"kv_heads", 2}}, 1);
  DeviceCase tensors(device(), problem);
  const void* arguments = tensors.arguments();
  const GuardedBuffer workspace(device(), std::max<std::size_t>(attend.workspace(arguments, &device()), 256), 0);
  for (int i = 0; i < 3; ++i) launch_with(attend, arguments, workspace);  // the thread remembers this launch

  const std::pair<const char*, std::function<void()>> calls[] = {
      {"a launch", [&] { launch_with(attend, arguments, workspace); }},
      {"a wait", [&] { device().synchronise(); }},
      {"memory", [&] { Buffer(device(), 16); }},
      {"a device", [&] { Device("cuda:0"); }},
      {"a kernel for the current device", [&] { Engine({.cache_dir = ""}).get("stream_copy"); }},
  };
  for (const auto& [what, call] : calls) {
    const std::string said = said_by_child([&call = call]() -> std::string {
      call();
      return "was accepted";
    });
    EXPECT_THAT(said, ::testing::HasSubstr("forked after its parent had started CUDA")) << what;
  }
  tensors.reset_outputs();
  launch_with(attend, arguments, workspace);
  EXPECT_TRUE(tensors.compare(problem).good());
}

}  // namespace
}  // namespace cubit::tests
