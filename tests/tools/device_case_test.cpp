// Proves that the arena of a run's tensors has the same memory for each case and never less than a case needs.
#include "tools/kernels/device_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <optional>

#include "tests/support/cpu_engine.hpp"

namespace cubit::tools {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

constexpr const char* kDevice = "cpu:sm_80";

class DeviceArenaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_.emplace(kDevice);
    } catch (const Error& error) {
      if (error.code() != CUBIT_DRIVER_UNAVAILABLE) throw;
      GTEST_SKIP() << error.what();
    }
  }
  const Device& device() const { return *device_; }

 private:
  std::optional<Device> device_;
};

TEST_F(DeviceArenaTest, EachCaseFindsTheMemoryOfTheOneBefore) {
  DeviceArena arena(device(), 10000);
  EXPECT_EQ(arena.bytes(), 0u) << "nothing before the first case";
  arena.reset(600);
  EXPECT_EQ(arena.bytes(), 10000u);
  auto* const first = static_cast<std::byte*>(arena.take(10));
  EXPECT_EQ(arena.take(1), first + DeviceArena::room_for(10)) << "one behind the other";
  arena.reset(10000);
  EXPECT_EQ(arena.take(1), first);
}

TEST_F(DeviceArenaTest, ACaseThatNeedsMoreHasIt) {
  DeviceArena arena(device(), 512);
  arena.reset(100);
  arena.reset(1 << 20);
  EXPECT_EQ(arena.bytes(), 1u << 20);
  arena.take(1 << 20);
  EXPECT_THROW(arena.take(1), std::bad_alloc);
}

TEST_F(DeviceArenaTest, ACaseThatIsTooLargeDoesNotCostTheNext) {
  DeviceArena arena(device(), 512);
  arena.reset(100);
  EXPECT_THROW(arena.reset(std::size_t{1} << 60), Error);
  arena.reset(100);
  EXPECT_EQ(arena.bytes(), 512u);
}

TEST_F(DeviceArenaTest, ALaunchOverOneCopyLeavesTheOthersAlone) {
  if (!tests::can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Kernel kernel = tests::engine().get("stream_copy", kDevice);
  const Problem problem = Problem::random("stream_copy", {{"bytes", 1008}}, 1);
  DeviceArena arena(device(), 0);
  const OwnedStream stream(device());
  DeviceCase on_device(device(), problem, 2, stream, &arena);
  on_device.allocate_workspace(kernel);
  on_device.launch(kernel, 1);
  EXPECT_THAT(on_device.download_outputs().front(), Each(std::byte{0xff}));
  on_device.launch(kernel, 0);
  const auto* const input = static_cast<const std::byte*>(problem.inputs().front().data);
  EXPECT_THAT(on_device.download_outputs().front(), ElementsAreArray(input, 1008));
}

}  // namespace
}  // namespace cubit::tools
