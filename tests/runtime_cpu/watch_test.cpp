// Tests of the checker's parts: clocks, the shadow of a word, and the order that barriers, fences and strong accesses
// create. tests/mutation tests the checker's reports on whole kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/watch/happens_before.hpp"
#include "runtime/cpu/watch/shadow.hpp"

namespace cubit::runtime::cpu {
namespace {

TEST(WatchClock, KnowsNothingOfOthers) {
  Clock clock;
  EXPECT_EQ(clock.at(0), 0u);
  clock.set(7, 3);
  clock.set(2, 5);
  clock.set(7, 4);
  EXPECT_EQ(clock.at(7), 4u);
  EXPECT_EQ(clock.at(2), 5u);
  EXPECT_EQ(clock.at(3), 0u);
}

/// Compared with a map, over all pairs of clocks of three agents at times 0 to 2.
TEST(WatchClock, JoinIsTheLaterOfBoth) {
  const auto clock_of = [](int number) {
    Clock clock;
    for (Agent agent = 0; agent < 3; ++agent, number /= 3) {
      if (number % 3 != 0) clock.set(10 * agent, static_cast<std::uint32_t>(number % 3));
    }
    return clock;
  };
  for (int left = 0; left < 27; ++left) {
    for (int right = 0; right < 27; ++right) {
      Clock joined = clock_of(left);
      joined.join(clock_of(right));
      for (Agent agent = 0; agent < 30; ++agent)
        EXPECT_EQ(joined.at(agent), std::max(clock_of(left).at(agent), clock_of(right).at(agent)));
    }
  }
}

Touch touch(Agent agent, std::uint32_t time, bool is_write, std::uint8_t bytes = 0xf) {
  return {.agent = agent, .time = time, .bytes = bytes, .is_write = is_write};
}

Clock knowing(Agent agent, std::uint32_t time) {
  Clock clock;
  clock.set(agent, time);
  return clock;
}

TEST(WatchShadow, AWriteRacesWithWhatItDoesNotKnow) {
  Shadow shadow;
  EXPECT_EQ(shadow.write(64, touch(1, 1, true), knowing(1, 1)), nullptr);
  const Touch* const race = shadow.write(64, touch(2, 1, true), knowing(2, 1));
  ASSERT_NE(race, nullptr);
  EXPECT_EQ(race->agent, 1u);
}

TEST(WatchShadow, AReadAfterAWriteThatItKnowsIsNone) {
  Shadow shadow;
  shadow.write(64, touch(1, 1, true), knowing(1, 1));
  EXPECT_EQ(shadow.read(64, touch(2, 1, false), knowing(1, 1)), nullptr);
  EXPECT_NE(shadow.read(64, touch(3, 1, false), knowing(3, 1)), nullptr);
  EXPECT_EQ(shadow.read(68, touch(3, 1, false), knowing(3, 1)), nullptr) << "another word";
}

TEST(WatchShadow, AWriteRacesWithEachOfSeveralReaders) {
  for (const Agent unknown : {1u, 2u, 3u}) {
    Shadow shadow;
    Clock known;
    for (Agent reader = 1; reader <= 3; ++reader) {
      EXPECT_EQ(shadow.read(64, touch(reader, 1, false), knowing(reader, 1)), nullptr);
      if (reader != unknown) known.set(reader, 1);
    }
    const Touch* const race = shadow.write(64, touch(9, 1, true), known);
    ASSERT_NE(race, nullptr);
    EXPECT_EQ(race->agent, unknown);
  }
}

TEST(WatchShadow, BytesOfAWordAreToldApart) {
  Shadow shadow;
  shadow.write(64, touch(1, 1, true, 0b0011), knowing(1, 1));
  EXPECT_EQ(shadow.write(64, touch(2, 1, true, 0b1100), knowing(2, 1)), nullptr);
  EXPECT_EQ(shadow.at(64).written, 0b1111);
}

TEST(WatchShadow, StrongAccessesDoNotRaceWithTheirLike) {
  Shadow shadow;
  Touch first = touch(1, 1, true);
  first.is_strong = true;
  shadow.write(64, first, knowing(1, 1));
  Touch strong = touch(2, 1, true);
  strong.is_strong = true;
  EXPECT_EQ(shadow.write(64, strong, knowing(2, 1)), nullptr);
  EXPECT_NE(shadow.read(64, touch(3, 1, false), knowing(3, 1)), nullptr);
}

TEST(WatchShadow, ForgetsWhenCleared) {
  Shadow shadow;
  shadow.write(64, touch(1, 1, true), knowing(1, 1));
  shadow.clear();
  EXPECT_EQ(shadow.at(64).written, 0);
  EXPECT_EQ(shadow.read(64, touch(2, 1, false), knowing(2, 1)), nullptr);
}

/// Two blocks of two warps. Each block would be its own cluster in a launch without clusters; here both are in one.
class WatchOrder : public ::testing::Test {
 protected:
  WatchOrder() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      Cta& cta = ctas_[rank];
      cta.index = {rank, 0, 0};
      cta.grid = {2, 1, 1};
      cta.rank = rank;
      for (int i = 0; i < 2; ++i) {
        Warp& warp = warps_[2 * rank + static_cast<std::size_t>(i)];
        warp.cta = &cta;
        warp.index = i;
        cta.warps.push_back(&warp);
      }
      cluster_.ctas.push_back(&cta);
    }
    order_.start(cluster_);
  }
  bool knows(const Warp& warp, HappensBefore::Moment moment) const {
    return order_.of(warp).clock.at(moment.agent) >= moment.time;
  }

  std::array<Cta, 2> ctas_;
  std::array<Warp, 4> warps_;  ///< warps 0 and 1 of block 0, 2 and 3 of block 1
  Cluster cluster_;
  HappensBefore order_;
};

TEST_F(WatchOrder, OnlyWhoPassesTheBarrierKnows) {
  const auto before = order_.now(warps_[0]);
  const std::uint64_t barrier = HappensBefore::block_barrier(ctas_[0], 0);
  order_.arrive(warps_[0], barrier);
  const auto after = order_.now(warps_[0]);
  EXPECT_FALSE(knows(warps_[1], before));
  order_.pass(warps_[1], barrier);
  EXPECT_TRUE(knows(warps_[1], before));
  EXPECT_FALSE(knows(warps_[1], after)) << "what is done after the arrival is nobody's";
  EXPECT_FALSE(knows(warps_[2], before));
}

TEST_F(WatchOrder, AReleaseIsKnownToWhoAcquiresIt) {
  const Order release{.is_strong = true, .releases = true};
  const Order acquire{.is_strong = true, .acquires = true};
  const Order relaxed{.is_strong = true};
  HappensBefore::Published published;
  const auto before = order_.now(warps_[0]);
  order_.release(warps_[0], release, published, false);
  order_.acquire(warps_[2], relaxed, published);
  EXPECT_FALSE(knows(warps_[2], before));
  order_.acquire(warps_[2], acquire, published);
  EXPECT_TRUE(knows(warps_[2], before));
}

TEST_F(WatchOrder, AReleaseToTheBlockIsNoneToOtherBlocks) {
  const Order release{.is_strong = true, .releases = true, .scope = kBlock};
  const Order acquire{.is_strong = true, .acquires = true};
  HappensBefore::Published published;
  const auto before = order_.now(warps_[0]);
  order_.release(warps_[0], release, published, false);
  order_.acquire(warps_[2], acquire, published);
  EXPECT_FALSE(knows(warps_[2], before));
  order_.acquire(warps_[1], acquire, published);
  EXPECT_TRUE(knows(warps_[1], before));
}

TEST_F(WatchOrder, AnAcquireOfTheBlockTakesNothingFromOtherBlocks) {
  const Order release{.is_strong = true, .releases = true};
  const Order relaxed{.is_strong = true};
  const Order block{.is_strong = true, .acquires = true, .releases = true, .scope = kBlock};
  HappensBefore::Published published;
  const auto before = order_.now(warps_[0]);
  order_.release(warps_[0], release, published, false);
  order_.acquire(warps_[2], block, published);
  EXPECT_FALSE(knows(warps_[2], before));
  order_.acquire(warps_[3], relaxed, published);
  order_.fence(warps_[3], block);
  EXPECT_FALSE(knows(warps_[3], before));
  order_.acquire(warps_[1], block, published);
  EXPECT_TRUE(knows(warps_[1], before));
}

/// The pattern of threadFenceReduction: fence, relaxed atomic; relaxed atomic, fence.
TEST_F(WatchOrder, FencesAroundRelaxedAccessesDoTheSame) {
  const Order relaxed{.is_strong = true};
  const Order fence{.is_strong = true, .acquires = true, .releases = true};
  HappensBefore::Published published;
  const auto before = order_.now(warps_[0]);
  order_.fence(warps_[0], fence);
  const auto between = order_.now(warps_[0]);
  order_.release(warps_[0], relaxed, published, true);
  order_.acquire(warps_[3], relaxed, published);
  EXPECT_FALSE(knows(warps_[3], before)) << "without a fence of its own";
  order_.fence(warps_[3], fence);
  EXPECT_TRUE(knows(warps_[3], before));
  EXPECT_FALSE(knows(warps_[3], between));
}

TEST_F(WatchOrder, APhaseOfAnMbarrierIsKnownWhenItHasEnded) {
  std::byte object{};
  const auto before = order_.now(warps_[0]);
  order_.arrive_mbarrier(warps_[0], &object);
  const auto copy = order_.land(&object);
  EXPECT_TRUE(HappensBefore::is_copier(copy.agent));
  order_.pass_mbarrier(warps_[1], &object);
  EXPECT_FALSE(knows(warps_[1], before));
  order_.end_phase(&object);
  order_.pass_mbarrier(warps_[1], &object);
  EXPECT_TRUE(knows(warps_[1], before));
  EXPECT_TRUE(knows(warps_[1], copy));
}

TEST_F(WatchOrder, CopiesRelyOnWhatIsBehindAProxyFence) {
  const auto before = order_.now(warps_[0]);
  const auto is_proxied = [&] { return order_.of(warps_[0]).proxied[kShared].at(before.agent) >= before.time; };
  EXPECT_FALSE(is_proxied());
  order_.fence_proxies(warps_[0], kShared);
  EXPECT_TRUE(is_proxied());
}

}  // namespace
}  // namespace cubit::runtime::cpu
