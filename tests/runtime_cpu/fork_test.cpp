// Tests a fork after the creation of an engine and of a CPU device: both work in the child as in the parent.
#include <cubit/check.hpp>

#include <gtest/gtest.h>
#include <string>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/child.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kTarget = "cpu:sm_80";
constexpr const char* kDescriptor = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";

TEST(CpuFork, TheChildComputesWithTheEngineAndTheDeviceOfItsParent) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device(kTarget);
  const Kernel kernel = engine().get(kDescriptor, kTarget);
  const Problem problem = Problem::random(kDescriptor, {{"batch", 2}, {"context", 300}, {"kv_heads", 2}}, 1);
  const auto error_of = [&](const Device& on) -> std::string {
    DeviceCase launched(on, problem);
    launch_once(on, engine().get(kDescriptor, kTarget), launched.arguments());
    const auto result = launched.compare(problem);
    return result.good() ? "" : std::string(result.worst);
  };
  ASSERT_EQ(error_of(device), "") << "the parent has launched before the fork";
  EXPECT_EQ(said_by_child([&] { return error_of(device) + error_of(Device(kTarget)) + "done"; }), "done");
  EXPECT_EQ(error_of(device), "");
}

}  // namespace
}  // namespace cubit::tests
