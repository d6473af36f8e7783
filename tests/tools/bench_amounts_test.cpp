// Proves how much a benchmark measures: copies of the inputs, launches of a graph, and the kind of floor.
#include "tools/bench/amounts.hpp"

#include <gtest/gtest.h>

namespace cubit::tools {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kGiB = 1 << 30;

TEST(BenchAmounts, CopiesAreSixteenTimesTheL2) {
  EXPECT_EQ(rotation(100 * kMiB, 100 * kMiB, 50 * kMiB, 80 * kGiB), 9);
  EXPECT_EQ(rotation(2 * kGiB, 2 * kGiB, 50 * kMiB, 80 * kGiB), 1);
}

TEST(BenchAmounts, CopiesAreAQuarterOfTheMemoryAtMostAndOneAtLeast) {
  EXPECT_EQ(rotation(100 * kMiB, kGiB, 50 * kMiB, 8 * kGiB), 2) << "what is not read takes room as well";
  EXPECT_EQ(rotation(100 * kMiB, 100 * kGiB, 50 * kMiB, 8 * kGiB), 1);
  EXPECT_EQ(rotation(0, 0, 50 * kMiB, 8 * kGiB), 64) << "and 64";
}

TEST(BenchAmounts, TheArenaIsSixtyFourTimesTheL2WithinAQuarterOfTheMemory) {
  EXPECT_EQ(arena_bytes(50 * kMiB, 80 * kGiB), 3200 * kMiB);
  EXPECT_EQ(arena_bytes(50 * kMiB, 8 * kGiB), 2 * kGiB);
}

TEST(BenchAmounts, AGraphTakesAboutAsLongWhateverItsCopiesTake) {
  EXPECT_EQ(rounds_of_graph(200), 4);
  EXPECT_EQ(rounds_of_graph(500), 2);
  EXPECT_EQ(rounds_of_graph(5000), 1);
  EXPECT_EQ(rounds_of_graph(0), 64) << "a clock may be too coarse to see the graph";
}

TEST(BenchAmounts, WhatWritesAFifthOfWhatItReadsIsMeasuredAgainstACopy) {
  EXPECT_EQ(floor_kind(1000, 199).kernel, "stream_read");
  EXPECT_EQ(floor_kind(1000, 199).bytes, 1000u);
  EXPECT_EQ(floor_kind(1000, 200).kernel, "stream_copy");
  EXPECT_EQ(floor_kind(1000, 200).bytes, 1200u);
}

}  // namespace
}  // namespace cubit::tools
