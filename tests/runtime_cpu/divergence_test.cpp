// Proves: diverged lanes reconverge at the immediate post-dominator, and a block whose warps cannot continue is
// reported as a deadlock and does not hang.
#include <gmock/gmock.h>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

const std::string kStore = "\n mad.wide.u32 %out, %t, 4, %out;\n st.global.u32 [%out], %r0;\n";

TEST(Divergence, NestedBranchesMeetAgain) {
  // activemask after the inner and the outer join shows which lanes are active.
  const Words output = run({.body = R"(
    mov.u32 %r0, 0; and.b32 %r1, %t, 1; and.b32 %r2, %t, 2;
    setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r2, 0;
    @%p0 bra $even;
    add.u32 %r0, %r0, 100;
    bra.uni $join;
  $even:
    @%p1 bra $low;
    add.u32 %r0, %r0, 10;
    bra.uni $inner;
  $low:
    add.u32 %r0, %r0, 1;
  $inner:
    activemask.b32 %r3; popc.b32 %r3, %r3; mad.lo.u32 %r0, %r3, 1000, %r0;
  $join:
    activemask.b32 %r3; popc.b32 %r3, %r3; mad.lo.u32 %r0, %r3, 1000000, %r0;)" +
                                    kStore},
                           {}, kLanes);
  for (unsigned i = 0; i < kLanes; ++i) {
    EXPECT_EQ(output[i], 32000000 + (i % 2 == 1 ? 100u : 16000 + (i % 4 == 0 ? 1u : 10u))) << i;
  }
}

TEST(Divergence, LoopsOfDifferentLengths) {
  const Words output = run({.body = R"(
    mov.u32 %r0, 0; mov.u32 %r1, 0;
  $loop:
    setp.gt.u32 %p0, %r1, %t;
    @%p0 bra $done;
    add.u32 %r0, %r0, %r1; add.u32 %r1, %r1, 1;
    bra.uni $loop;
  $done:
    activemask.b32 %r3; popc.b32 %r3, %r3; shl.b32 %r3, %r3, 16; or.b32 %r0, %r0, %r3;)" +
                                    kStore},
                           {}, kLanes);
  for (unsigned i = 0; i < kLanes; ++i) EXPECT_EQ(output[i], (32u << 16) + i * (i + 1) / 2);
}

TEST(Divergence, LanesThatReturnEarlyLeaveTheOthersGoing) {
  const Words output = run({.body = R"(
    and.b32 %r1, %t, 3; setp.eq.u32 %p0, %r1, 0;
    @%p0 ret;
    setp.eq.u32 %p1, %r1, 1;
    @%p1 bra $exit_inside;
    bra.uni $rest;
  $exit_inside:
    mov.u32 %r0, 7;)" + kStore + R"(
    ret;
  $rest:
    activemask.b32 %r0;)" + kStore},
                           {}, kLanes);
  for (unsigned i = 0; i < kLanes; ++i)
    EXPECT_EQ(output[i], i % 4 == 0 ? 0xcdcdcdcd : i % 4 == 1 ? 7u : 0xccccccccu) << i;
}

/// Lane i leaves in round i of a loop, in a branch that half of the lanes take. At the end the remaining lanes
/// reconverge with their earlier registers.
TEST(Divergence, LanesThatReturnInALoopAreNotWaitedFor) {
  for (const char* leave : {"ret", "exit"}) {
    const Words output = run({.body = R"(
      mov.u32 %r1, 0; add.u32 %r5, %t, 1000; mov.u32 %r0, 0; and.b32 %r2, %t, 1; setp.eq.u32 %p0, %r2, 0;
      mad.wide.u32 %out, %t, 8, %out;
      @%p0 bra $even;
    $loop:
      setp.eq.u32 %p1, %r1, %t; add.u32 %r0, %r0, 3;
      @%p1 )" + std::string(leave) + R"(;
      add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 16; @%p2 bra $loop;
      activemask.b32 %r6; bra.uni $join;
    $even:
      mov.u32 %r6, 0;
    $join:
      activemask.b32 %r3; xor.b32 %r3, %r3, %r6; add.u32 %r0, %r0, %r5; st.global.v2.u32 [%out], {%r0, %r3};)",
                              .threads = 32},
                             {}, 64);
    for (unsigned i = 0; i < kLanes; ++i) {
      const bool is_even = i % 2 == 0;
      const bool has_left = !is_even && i < 16;
      ASSERT_EQ(output[2 * i], has_left ? 0xcdcdcdcd : 1000 + i + (is_even ? 0 : 48)) << i;
      // All remaining lanes reconverge: the even lanes and the upper odd lanes.
      ASSERT_EQ(output[2 * i + 1], has_left ? 0xcdcdcdcd : 0xffff5555 ^ (is_even ? 0 : 0xaaaa0000)) << i;
    }
  }
}

TEST(Divergence, ALastWarpMayBePartlyThere) {
  const Words output = run({.body = "activemask.b32 %r0;" + kStore, .threads = 40}, {}, 41);
  EXPECT_EQ(output[31], 0xffffffff);
  EXPECT_EQ(output[39], 0xffu);
  EXPECT_EQ(output[40], 0xcdcdcdcd);
}

const std::string kRotate = R"(
    mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; add.s32 %r3, %r1, %r2;
    st.shared.u32 [%r3], %t;
    {barrier}
    add.u32 %r4, %t, 32; rem.u32 %r4, %r4, 128; shl.b32 %r4, %r4, 2; add.s32 %r4, %r1, %r4;
    ld.shared.u32 %r0, [%r4];)" +
                            kStore;

Case rotate(const std::string& barrier) {
  std::string body = kRotate;
  body.replace(body.find("{barrier}"), 9, barrier);
  return {.body = body, .declarations = ".shared .align 4 .b8 buffer[512];", .threads = 128, .blocks = 3};
}

TEST(Barriers, OrderTheWarpsOfABlock) {
  for (const char* barrier : {"bar.sync 0;", "barrier.sync 3;", "bar.sync 1, 128;", "barrier.cta.sync.aligned 0;"}) {
    SCOPED_TRACE(barrier);
    const Words output = run(rotate(barrier), {}, 128);
    for (unsigned i = 0; i < 128; ++i) ASSERT_EQ(output[i], (i + 32) % 128);
  }
}

TEST(Barriers, WithoutOneTheNextWarpsDataIsMissing) { EXPECT_EQ(run(rotate(""), {}, 128)[0], 0xffffffff); }

TEST(Barriers, WarpsThatHaveEndedAreNotWaitedFor) {
  const std::string body = "setp.ge.u32 %p0, %t, 64; @%p0 ret; bar.sync 0; mov.u32 %r0, 1;" + kStore;
  const Words output = run({.body = body, .threads = 128}, {}, 128);
  EXPECT_EQ(output[63], 1u);
  EXPECT_EQ(output[64], 0xcdcdcdcd);
}

TEST(Barriers, ADeadlockNamesEveryWarpAndItsPlace) {
  const std::string failure = failure_of(
      {.body = "setp.ge.u32 %p0, %t, 32; @%p0 bra $other; bar.sync 1; bra.uni $end; $other: bar.sync 2; $end:",
       .threads = 64});
  EXPECT_THAT(failure, HasSubstr("deadlock"));
  EXPECT_THAT(failure, HasSubstr("warp 0 at bar.sync"));
  EXPECT_THAT(failure, HasSubstr("waiting for barrier 1"));
  EXPECT_THAT(failure, HasSubstr("warp 1 at bar.sync"));
  EXPECT_THAT(failure, HasSubstr("waiting for barrier 2"));
}

/// A GPU would let lane 1 run, which sets the flag that lane 0 waits for.
TEST(Divergence, LanesThatWaitForLanesOfTheirWarpAreSaidToBeALimit) {
  const std::string failure =
      failure_of({.body = "st.shared.u32 [flag], 0; bar.warp.sync -1; setp.eq.u32 %p0, %t, 0; @%p0 bra $wait; "
                          "st.volatile.shared.u32 [flag], 1; bra.uni $end; "
                          "$wait: ld.volatile.shared.u32 %r0, [flag]; setp.eq.u32 %p1, %r0, 0; @%p1 bra $wait; $end:",
                  .declarations = ".shared .align 4 .u32 flag;",
                  .threads = 2});
  EXPECT_THAT(failure, HasSubstr("in a loop, while its lanes 0x00000002 wait for lanes 0x00000001"));
  EXPECT_THAT(failure, HasSubstr("this is a limit of the CPU device"));
}

TEST(Barriers, HalfAWarpAtABarrierIsAnError) {
  EXPECT_THAT(failure_of({.body = "setp.ge.u32 %p0, %t, 16; @%p0 bra $end; bar.sync 0; $end:"}),
              HasSubstr("lanes 0x0000ffff of 0xffffffff are at a barrier"));
}

TEST(Loading, AnUnknownInstructionIsNamedWithItsLine) {
  const std::string failure = failure_of({.body = "tcgen05.fence::before_thread_sync;"});
  EXPECT_THAT(failure, HasSubstr("tcgen05.fence::before_thread_sync"));
  EXPECT_THAT(failure, HasSubstr("PTX line 16"));
}

}  // namespace
}  // namespace cubit::tests
