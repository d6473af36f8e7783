// Tests templates/pipeline/copy_deadline.h with clocks that advance, stand still, jump and are set back.
#include "templates/pipeline/copy_deadline.h"

#include <gtest/gtest.h>

#include <vector>

namespace cubit {
namespace {

using Times = std::vector<unsigned long long>;

/// The times at which `count` copies start for a producer that checks the deadline at every tick from `now` on.
Times watch(CopyDeadline& deadline, unsigned long long now, int count) {
  Times happened;
  for (; happened.size() < static_cast<std::size_t>(count); ++now) {
    while (happened.size() < static_cast<std::size_t>(count) && deadline.has_passed(now)) happened.push_back(now);
  }
  return happened;
}

TEST(CopyDeadline, IsAnIntervalApart) {
  CopyDeadline deadline{100, 10};
  EXPECT_EQ(watch(deadline, 95, 4), (Times{100, 110, 120, 130}));
}

TEST(CopyDeadline, IsAtOnceForWhatBeganEarlier) {
  CopyDeadline deadline{1000 - 2 * 10, 10};  // three copies start at once
  EXPECT_EQ(watch(deadline, 1000, 5), (Times{1000, 1000, 1000, 1010, 1020}));
}

TEST(CopyDeadline, LetsWhoIsLateCatchUp) {
  CopyDeadline deadline{100, 10};
  EXPECT_EQ(watch(deadline, 100, 1), (Times{100}));
  EXPECT_EQ(watch(deadline, 135, 5), (Times{135, 135, 135, 140, 150})) << "110, 120 and 130 were missed";
}

TEST(CopyDeadline, MovesOnWithAClockThatRarelyDoes) {
  CopyDeadline deadline{1000, 300};
  Times ticks;
  for (unsigned long long now = 1000; now < 4000; ++now) {
    const unsigned long long coarse = now / 1000 * 1000;
    while (deadline.has_passed(coarse)) ticks.push_back(now);
  }
  EXPECT_EQ(ticks, (Times{1000, 2000, 2000, 2000, 3000, 3000, 3000})) << "one copy per interval on average";
}

TEST(CopyDeadline, DoesNotWaitForAClockThatWasSetBack) {
  CopyDeadline deadline{1000000, 10};
  EXPECT_EQ(watch(deadline, 1000000, 2), (Times{1000000, 1000010}));
  EXPECT_EQ(watch(deadline, 500, 3), (Times{500, 510, 520}));
}

TEST(CopyDeadline, GoesOnBeyondTheLargestNumber) {
  constexpr unsigned long long kLast = ~0ull;
  CopyDeadline deadline{kLast - 4, 10};
  EXPECT_EQ(watch(deadline, kLast - 9, 3), (Times{kLast - 4, 5, 15}));
}

}  // namespace
}  // namespace cubit
