// Launch::spread_blocks spreads the blocks of an overlapping launch evenly: it gives blocks so much shared memory that
// an SM has room for its share of the blocks, and for no more.
#include <gtest/gtest.h>

#include "codegen/architecture.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {
namespace {

constexpr int kMultiprocessors = 132;
constexpr int kThreads = 128;
constexpr int kRegisters = 32;

unsigned spread(std::array<unsigned, 3> grid, int blocks_per_sm, const codegen::Architecture& architecture) {
  runtime::DeviceFacts device;
  device.architecture = &architecture;
  device.multiprocessors = kMultiprocessors;
  Launch launch;
  launch.shape.grid = grid;
  launch.spread_blocks(blocks_per_sm, device);
  return launch.overlap_shared_memory;
}

TEST(SpreadBlocks, AnSmHoldsItsShareAndNoMore) {
  for (const char* const name : {"sm_90a", "sm_100a", "sm_120"}) {
    const codegen::Architecture& architecture = codegen::find_architecture(name);
    for (const unsigned share : {2U, 3U, 5U}) {
      const auto bytes = static_cast<int>(spread({kMultiprocessors, share, 1}, 8, architecture));
      EXPECT_EQ(codegen::resident_blocks(architecture, kThreads, kRegisters, bytes), static_cast<int>(share)) << name;
      EXPECT_EQ(static_cast<int>(spread({kMultiprocessors * share - 1, 1, 1}, 8, architecture)), bytes);
      const int one_more =
          codegen::resident_blocks(architecture, kThreads, kRegisters,
                                   static_cast<int>(spread({kMultiprocessors, 1, share + 1}, 8, architecture)));
      EXPECT_EQ(one_more, static_cast<int>(share) + 1);
    }
    EXPECT_EQ(static_cast<int>(spread({1, 1, 1}, 2, architecture)), architecture.shared_memory_per_block);
  }
}

TEST(SpreadBlocks, WhatFillsTheDeviceAsksForNothing) {
  const codegen::Architecture& architecture = codegen::find_architecture("sm_90a");
  EXPECT_EQ(spread({3 * kMultiprocessors, 1, 1}, 3, architecture), 0U);
  EXPECT_EQ(spread({2 * kMultiprocessors + 1, 1, 1}, 3, architecture), 0U);
  EXPECT_EQ(spread({1, 1, 1}, 1, architecture), 0U);
  EXPECT_EQ(spread({65535, 65535, 65535}, 3, architecture), 0U);
}

TEST(SpreadBlocks, StaticSharedMemoryIsPartOfTheShare) {
  Launch launch;
  launch.shape.dynamic_shared_memory = 24576;
  EXPECT_EQ(launch.dynamic_shared_memory_of_overlap(0), 24576U) << "blocks are not spread";
  launch.overlap_shared_memory = 33024;
  EXPECT_EQ(launch.dynamic_shared_memory_of_overlap(0), 33024U);
  EXPECT_EQ(launch.dynamic_shared_memory_of_overlap(1000), 32024U);
  for (const unsigned fixed : {20000U, 33024U, 36000U})  // the last number alone exceeds a block's share
    EXPECT_EQ(launch.dynamic_shared_memory_of_overlap(fixed), 24576U) << fixed;
}

}  // namespace
}  // namespace cubit::ops
