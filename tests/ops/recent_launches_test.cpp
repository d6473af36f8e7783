// RecentLaunches finds a remembered launch byte for byte, and never returns the launch of another request.
#include "ops/launch/recent_launches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/lifetime.hpp"

namespace cubit::ops {
namespace {

/// A request with arguments of `size` bytes. Requests differ only by `number`.
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

/// Whether a launch was remembered; a launch is remembered from its second request on. The returned launch must have
/// this number in any case.
bool is_known(RecentLaunches& recent, const LaunchRequest& request, unsigned number) {
  bool known = true;
  const Launch& launch = recent.find_or_make(request, [&] {
    known = false;
    return numbered(number);
  });
  EXPECT_EQ(launch.shape.grid[0], number);
  EXPECT_EQ(std::memcmp(launch.parameters.data(), numbered(number).parameters.data(), sizeof number), 0);
  return known;
}

/// Requests a launch twice, so that it is remembered.
void make_known(RecentLaunches& recent, const LaunchRequest& request, unsigned number) {
  EXPECT_FALSE(is_known(recent, request, number));
  EXPECT_FALSE(is_known(recent, request, number));
}

TEST(RecentLaunches, FindsWhatIsEqualInAll) {
  RecentLaunches recent;
  const Asked asked(7);
  make_known(recent, asked.request, 7);
  const Asked again(7);
  EXPECT_TRUE(is_known(recent, again.request, 7));

  std::vector<LaunchRequest> others(5, again.request);
  others[0].kernel = 5;
  others[1].device = 5;
  others[2].workspace = &others;
  others[3].workspace_bytes = 5;
  others[4].arguments = again.request.arguments.first(376);
  for (unsigned i = 0; i < others.size(); ++i) EXPECT_FALSE(is_known(recent, others[i], 100 + i)) << i;
  for (std::size_t at = 0; at < 384; at += 4) {
    const Asked other(7, 384, at);
    const auto number = static_cast<unsigned>(at == 128 ? 7 : 200 + at);
    EXPECT_EQ(is_known(recent, other.request, number), at == 128) << at;
  }
}

TEST(RecentLaunches, WordsThatChangePlacesAreOthers) {
  RecentLaunches recent;
  Asked asked(0);
  const std::uint64_t words[2] = {0x1000, 0x2000};
  for (std::size_t at = 0; at + sizeof words <= 384; at += sizeof words)
    std::memcpy(asked.arguments.data() + at, words, sizeof words);
  make_known(recent, asked.request, 1);
  for (std::size_t at = 0; at + sizeof words <= 384; at += sizeof words) {
    std::byte* const pair = asked.arguments.data() + at;
    std::swap_ranges(pair, pair + 8, pair + 8);
    EXPECT_FALSE(is_known(recent, asked.request, static_cast<unsigned>(2 + at))) << at;
    std::swap_ranges(pair, pair + 8, pair + 8);
  }
  EXPECT_TRUE(is_known(recent, asked.request, 1));
}

/// Requests the launches 0 … launches - 1 and returns how many were remembered.
unsigned count_known(RecentLaunches& recent, unsigned launches) {
  unsigned known = 0;
  for (unsigned i = 1; i <= launches; ++i) known += is_known(recent, Asked(i).request, i) ? 1 : 0;
  return known;
}

constexpr unsigned kStay = 200;  // launches of a step
constexpr unsigned kMostStay = kStay * 95 / 100;

/// A launch that throws is never remembered, and no other launch is evicted for it.
TEST(RecentLaunches, ForgetsWhatCanNotBeMade) {
  RecentLaunches recent;
  for (int step = 0; step < 3; ++step) count_known(recent, kStay);
  const auto fails = []() -> Launch { throw std::runtime_error("no such launch"); };
  for (unsigned i = 0; i < 5000; ++i) {
    const Asked asked(1000 + i);
    for (int turn = 0; turn < 3; ++turn) EXPECT_THROW(recent.find_or_make(asked.request, fails), std::runtime_error);
  }
  EXPECT_GE(count_known(recent, kStay), kMostStay);
  make_known(recent, Asked(1000).request, 1000);
  EXPECT_TRUE(is_known(recent, Asked(1000).request, 1000));
}

/// The launch throws at the request that would store it.
TEST(RecentLaunches, IsMadeAnewAfterAFailure) {
  RecentLaunches recent;
  const Asked asked(3);
  const auto fails = []() -> Launch { throw std::runtime_error("no such launch"); };
  EXPECT_FALSE(is_known(recent, asked.request, 3));
  EXPECT_THROW(recent.find_or_make(asked.request, fails), std::runtime_error);
  EXPECT_FALSE(is_known(recent, asked.request, 3));
  EXPECT_TRUE(is_known(recent, asked.request, 3));
}

/// Repeats the launches of a step. If there are more launches than places, some stay, and none is taken for another.
TEST(RecentLaunches, KnowsAStepsLaunches) {
  for (const unsigned launches : {80U, 160U, 400U, 2000U}) {
    RecentLaunches recent;
    EXPECT_EQ(count_known(recent, launches), 0U);
    EXPECT_EQ(count_known(recent, launches), 0U);
    for (int step = 0; step < 20; ++step) count_known(recent, launches);
    const unsigned known = count_known(recent, launches);
    EXPECT_GE(known, launches <= 160 ? launches * 95 / 100 : launches == 400 ? 300 : 1) << launches;
    EXPECT_LE(known, 512U);
  }
}

/// Launches that never come again, for example because max_length grows, do not evict repeated launches.
TEST(RecentLaunches, WhatComesOnceTakesNoPlace) {
  RecentLaunches recent;
  for (int step = 0; step < 3; ++step) count_known(recent, kStay);
  EXPECT_GE(count_known(recent, kStay), kMostStay);
  for (unsigned i = 0; i < 20000; ++i) is_known(recent, Asked(100000 + i).request, 100000 + i);
  EXPECT_GE(count_known(recent, kStay), kMostStay);
}

TEST(RecentLaunches, AreAThreadsOwn) {
  const Asked asked(11);
  make_known(of_this_thread<RecentLaunches>(), asked.request, 11);
  std::thread([&] { EXPECT_FALSE(is_known(of_this_thread<RecentLaunches>(), asked.request, 12)); }).join();
  EXPECT_TRUE(is_known(of_this_thread<RecentLaunches>(), asked.request, 11));
}

}  // namespace
}  // namespace cubit::ops
