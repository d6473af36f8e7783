// What a thread remembers of its launches: found again byte for byte, and never another's.
#include "ops/recent_launches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

namespace cubit::ops {
namespace {

/// Arguments of `size` bytes that differ by `number` alone.
struct Asked {
  std::array<std::byte, kMostRepeatableBytes> arguments{};
  LaunchRequest request;

  explicit Asked(std::uint32_t number, std::size_t size = 384, std::size_t at = 128) {
    std::memcpy(arguments.data() + at, &number, sizeof number);
    request = {1, 2, nullptr, 3, {arguments.data(), size}};
  }
  Asked(const Asked&) = delete;
};

Launch numbered(unsigned number) {
  Launch launch;
  launch.shape.grid[0] = number;
  launch.parameter_bytes = sizeof number;
  std::memcpy(launch.parameters.data(), &number, sizeof number);
  return launch;
}

TEST(RecentLaunches, FindsWhatIsEqualInAll) {
  RecentLaunches recent;
  const Asked asked(7);
  EXPECT_EQ(recent.find(asked.request), nullptr);
  recent.add(asked.request, numbered(7));
  const Asked again(7);
  ASSERT_NE(recent.find(again.request), nullptr);
  EXPECT_EQ(recent.find(again.request)->shape.grid[0], 7U);
  EXPECT_EQ(std::memcmp(recent.find(again.request)->parameters.data(), numbered(7).parameters.data(), 4), 0);

  std::vector<LaunchRequest> others(5, again.request);
  others[0].kernel = 5;
  others[1].device = 5;
  others[2].workspace = &others;
  others[3].workspace_bytes = 5;
  others[4].arguments = again.request.arguments.first(376);
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_EQ(recent.find(others[i]), nullptr) << i;
  for (std::size_t at = 0; at < 384; at += 4) {
    const Asked other(7, 384, at);
    EXPECT_EQ(recent.find(other.request) != nullptr, at == 128) << at;
  }
}

TEST(RecentLaunches, WordsThatChangePlacesAreOthers) {
  RecentLaunches recent;
  Asked asked(0);
  const std::uint64_t words[2] = {0x1000, 0x2000};
  for (std::size_t at = 0; at + sizeof words <= 384; at += sizeof words)
    std::memcpy(asked.arguments.data() + at, words, sizeof words);
  recent.add(asked.request, numbered(1));
  for (std::size_t at = 0; at + sizeof words <= 384; at += sizeof words) {
    std::byte* const pair = asked.arguments.data() + at;
    std::swap_ranges(pair, pair + 8, pair + 8);
    EXPECT_EQ(recent.find(asked.request), nullptr) << at;
    std::swap_ranges(pair, pair + 8, pair + 8);
  }
  EXPECT_NE(recent.find(asked.request), nullptr);
}

/// Launches by number, each looked for and, where it is not there, added: how many of them were.
unsigned count_known(RecentLaunches& recent, unsigned launches) {
  unsigned known = 0;
  for (unsigned i = 1; i <= launches; ++i) {
    const Asked asked(i);
    const Launch* const found = recent.find(asked.request);
    known += found != nullptr ? 1 : 0;
    EXPECT_EQ((found != nullptr ? *found : recent.add(asked.request, numbered(i))).shape.grid[0], i);
  }
  return known;
}

/// A step's launches, step after step. Of more than there is room for none is taken for another, and some stay.
TEST(RecentLaunches, KnowsAStepsLaunches) {
  for (const unsigned launches : {80U, 160U, 400U, 5000U}) {
    RecentLaunches recent;
    EXPECT_EQ(count_known(recent, launches), 0U);
    for (int step = 0; step < 20; ++step) count_known(recent, launches);
    const unsigned known = count_known(recent, launches);
    EXPECT_GE(known, launches <= 160 ? launches * 95 / 100 : launches == 400 ? 300 : 0) << launches;
    EXPECT_LE(known, 512U);
  }
}

TEST(RecentLaunches, AreAThreadsOwn) {
  const Asked asked(11);
  RecentLaunches::of_this_thread().add(asked.request, numbered(11));
  std::thread([&] { EXPECT_EQ(RecentLaunches::of_this_thread().find(asked.request), nullptr); }).join();
  EXPECT_NE(RecentLaunches::of_this_thread().find(asked.request), nullptr);
}

}  // namespace
}  // namespace cubit::ops
