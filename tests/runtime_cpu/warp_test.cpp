// Tests of data exchange between lanes. PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync".
#include <gmock/gmock.h>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

Words per_lane(const std::string& body) {
  return run({.body = body + "\n mad.wide.u32 %out, %t, 4, %out;\n st.global.u32 [%out], %r0;"}, {}, kLanes);
}

TEST(Shuffle, EveryModeAndLane) {
  for (unsigned n = 0; n < 32; ++n) {
    const std::string number = std::to_string(n);
    const Words up = per_lane("shfl.sync.up.b32 %r0|%p0, %t, " + number +
                              ", 0, -1; selp.b32 %r1, 256, 0, %p0; or.b32 %r0, %r0, %r1;");
    const Words down = per_lane("shfl.sync.down.b32 %r0|%p0, %t, " + number +
                                ", 31, -1; selp.b32 %r1, 256, 0, %p0; or.b32 %r0, %r0, %r1;");
    const Words crossed = per_lane("shfl.sync.bfly.b32 %r0, %t, " + number + ", 31, -1;");
    const Words indexed = per_lane("shfl.sync.idx.b32 %r0, %t, " + number + ", 31, -1;");
    for (unsigned i = 0; i < 32; ++i) {
      ASSERT_EQ(up[i], i >= n ? (i - n) | 256 : i);
      ASSERT_EQ(down[i], i + n < 32 ? (i + n) | 256 : i);
      ASSERT_EQ(crossed[i], i ^ n);
      ASSERT_EQ(indexed[i], n);
    }
  }
}

/// Bits 8 to 12 of c cut the warp into segments, here of eight lanes.
TEST(Shuffle, StaysInItsSegment) {
  const Words down = per_lane("shfl.sync.down.b32 %r0, %t, 3, 6175, -1;");  // 0x181f
  const Words indexed = per_lane("shfl.sync.idx.b32 %r0, %t, 5, 6175, -1;");
  for (unsigned i = 0; i < 32; ++i) {
    EXPECT_EQ(down[i], i % 8 + 3 < 8 ? i + 3 : i);
    EXPECT_EQ(indexed[i], i / 8 * 8 + 5);
  }
}

TEST(Vote, CountsTheLanesOfItsMask) {
  const std::string odd = "and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 1; ";
  EXPECT_EQ(per_lane(odd + "vote.sync.ballot.b32 %r0, %p0, -1;"), Words(32, 0xaaaaaaaa));
  EXPECT_EQ(per_lane(odd + "vote.sync.any.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1;"), Words(32, 1));
  EXPECT_EQ(per_lane(odd + "vote.sync.all.pred %p1, !%p0, -1; selp.u32 %r0, 1, 0, %p1;"), Words(32, 0));
  EXPECT_EQ(
      per_lane(odd + "mov.u32 %r0, 9; @%p0 vote.sync.all.pred %p1, %p0, 0xaaaaaaaa; @%p0 selp.u32 %r0, 1, 0, %p1;")[1],
      1u);
}

TEST(Collectives, OfLanesThatAreElsewhereAreErrors) {
  const std::string failure = failure_of({.body = "setp.lt.u32 %p0, %t, 16; @%p0 bra $some; bra.uni $end; $some: "
                                                  "shfl.sync.idx.b32 %r0, %t, 0, 31, -1; $end:"});
  EXPECT_THAT(failure, HasSubstr("a collective of lanes 0xffffffff is executed by lanes 0x0000ffff"));
  EXPECT_THAT(failure, HasSubstr("shfl.sync.idx.b32"));
  EXPECT_THAT(
      failure_of({.body = "setp.lt.u32 %p0, %t, 16; @%p0 bra $some; bra.uni $end; $some: bar.warp.sync -1; $end:"}),
      HasSubstr("a collective"));
}

TEST(MatchAndReduce, GroupLanesByValue) {
  const Words any = per_lane("and.b32 %r1, %t, 3; match.any.sync.b32 %r0, %r1, -1;");
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(any[i], 0x11111111u << (i % 4));
  EXPECT_EQ(per_lane("match.all.sync.b32 %r0|%p0, %t, -1;"), Words(32, 0));
  EXPECT_EQ(per_lane("redux.sync.add.u32 %r0, %t, -1;"), Words(32, 496));
  EXPECT_EQ(per_lane("sub.s32 %r1, %t, 9; redux.sync.min.s32 %r0, %r1, -1;"), Words(32, 0xfffffff7));
  EXPECT_EQ(per_lane("redux.sync.xor.b32 %r0, %t, -1;"), Words(32, 0));
}

TEST(SpecialRegisters, TellALaneWhereItIs) {
  EXPECT_EQ(per_lane("mov.u32 %r0, %lanemask_lt;")[5], 31u);
  EXPECT_EQ(per_lane("mov.u32 %r0, %laneid;")[31], 31u);
  const Words blocks = run({.body = "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ntid.x; mad.wide.u32 "
                                    "%out, %r0, 8, %out; st.global.v2.u32 [%out], {%r1, %r2};",
                            .threads = 64,
                            .blocks = 3},
                           {}, 6);
  EXPECT_EQ(blocks, (Words{3, 64, 3, 64, 3, 64}));
}

}  // namespace
}  // namespace cubit::tests
