// Proves that the description of a launch agrees with the launch: its grid, its workspace, and the blocks that a
// multiprocessor holds. The CPU device stands for the GPU; nothing is launched.
#include <gtest/gtest.h>

#include <cubit/check.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/support/cpu_engine.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kTiles = "w4a16_gemm:tile_m=16,tile_n=256";

class DescribeLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_.emplace("cpu:sm_90a");
    } catch (const Error& error) {
      if (error.code() != CUBIT_DRIVER_UNAVAILABLE) throw;
      GTEST_SKIP() << error.what();
    }
    if (!tests::can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  }

  /// Of the kernel for GPUs, whose registers are known.
  nlohmann::json describe(const std::string& descriptor, const Problem::Numbers& sizes) const {
    const Problem problem = Problem::random(descriptor, sizes, 1);
    return nlohmann::json::parse(problem.describe_launch(tests::engine().get(descriptor, "sm_90a"), *device_));
  }

  std::optional<Device> device_;
};

TEST_F(DescribeLaunch, CountsTheBlocksOfEachWayToShareK) {
  const auto with = [&](int decomposition, int splits) {
    Problem::Numbers sizes = {{"m", 20}, {"n", 600}, {"k", 2048}, {"decomposition", decomposition}};
    if (splits > 0) sizes.emplace_back("splits", splits);
    return describe(kTiles, sizes);
  };
  const auto parallel = with(1, 0);
  EXPECT_EQ(parallel.at("grid"), nlohmann::json({2, 3, 1})) << "2 tiles of 16 rows, 3 of 256 columns";
  EXPECT_EQ(parallel.at("blocks"), 6);
  EXPECT_EQ(parallel.at("workspace_bytes"), 0);
  const auto split = with(2, 4);
  EXPECT_EQ(split.at("grid"), nlohmann::json({2, 3, 4}));
  EXPECT_EQ(split.at("blocks"), 24);
  EXPECT_GT(split.at("workspace_bytes"), CUBIT_WORKSPACE_ZEROED_BYTES);
}

TEST_F(DescribeLaunch, OccupancyFollowsFromRegistersAndSharedMemory) {
  const auto launch = describe(kTiles, {{"m", 16}, {"n", 256}, {"k", 2048}});
  EXPECT_EQ(launch.at("descriptor"), canonical(kTiles));
  EXPECT_EQ(launch.at("threads"), 128);
  EXPECT_EQ(launch.at("blocks_per_sm"), 3) << "of 65 KiB of shared memory each";
  EXPECT_EQ(launch.at("occupancy"), 3 * 4 / 64.);
}

TEST_F(DescribeLaunch, AnEmptyLaunchHasNoBlocks) {
  const auto launch = describe(kTiles, {{"m", 0}, {"n", 256}, {"k", 2048}});
  EXPECT_EQ(launch.at("blocks"), 0);
}

TEST_F(DescribeLaunch, RegistersOfTheCpuDevicesKernelsAreNotKnown) {
  const Problem problem = Problem::random(kTiles, {{"m", 1}, {"n", 256}, {"k", 128}}, 1);
  const auto launch =
      nlohmann::json::parse(problem.describe_launch(tests::engine().get(kTiles, "cpu:sm_90a"), *device_));
  EXPECT_EQ(launch.at("blocks"), 1);
  EXPECT_TRUE(launch.at("blocks_per_sm").is_null());
  EXPECT_TRUE(launch.at("occupancy").is_null());
}

}  // namespace
}  // namespace cubit::tools
