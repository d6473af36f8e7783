// Tests of all forms of block barriers, and of warps that wait in loops. PTX ISA, "bar, barrier".
#include <gmock/gmock.h>

#include <thread>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

const std::string kStore = "\n mad.wide.u32 %out, %t, 4, %out;\n st.global.u32 [%out], %r0;\n";

TEST(BlockBarrier, VotesReachEveryThread) {
  const std::string third = "rem.u32 %r1, %t, 3; setp.eq.u32 %p0, %r1, 0; ";
  const auto votes = [&](const std::string& body, unsigned threads) {
    return run({.body = third + body + kStore, .threads = threads}, {}, threads);
  };
  EXPECT_EQ(votes("bar.red.popc.u32 %r0, 0, %p0;", 96), Words(96, 32));
  EXPECT_EQ(votes("barrier.cta.red.popc.aligned.u32 %r0, 2, 96, %p0;", 96), Words(96, 32));
  EXPECT_EQ(votes("bar.red.popc.u32 %r0, 0, !%p0;", 40), Words(40, 26));
  EXPECT_EQ(votes("bar.red.and.pred %p1, 0, %p0; selp.u32 %r0, 1, 0, %p1;", 64), Words(64, 0));
  EXPECT_EQ(votes("bar.red.or.pred %p0, 0, %p0; selp.u32 %r0, 1, 0, %p0;", 64), Words(64, 1));
  EXPECT_EQ(votes("setp.lt.u32 %p0, %t, 999; bar.red.and.pred %p0, 1, %p0; selp.u32 %r0, 1, 0, %p0;", 40),
            Words(40, 1));
}

/// Warp 1 produces for warp 0 without waiting. The second round must not be mistaken for the first.
TEST(BlockBarrier, ArrivingDoesNotWait) {
  const Words output = run({.body = R"(
    mov.u32 %r2, 0; mov.u32 %r0, 0; setp.ge.u32 %p0, %t, 32; @%p0 bra $producer;
  $consumer:
    barrier.cta.sync.aligned 1, 64;
    ld.shared.u32 %r3, [value]; mad.lo.u32 %r0, %r0, 10, %r3;
    barrier.cta.arrive.aligned 2, 64;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 4; @%p1 bra $consumer;
    bra.uni $end;
  $producer:
    add.u32 %r2, %r2, 1; st.shared.u32 [value], %r2;
    bar.arrive 1, 64;
    barrier.sync 2, 64;
    setp.lt.u32 %p1, %r2, 4; @%p1 bra $producer;
  $end:)" + kStore,
                            .declarations = ".shared .align 4 .u32 value;",
                            .threads = 64},
                           {}, 64);
  EXPECT_EQ(output[0], 1234u);
}

TEST(BlockBarrier, AGuardedOneIsForWarpsThatAgree) {
  const Words output =
      run({.body = "setp.lt.u32 %p0, %t, 64; mov.u32 %r0, 3; @%p0 bar.sync 1, 64; @!%p0 bar.sync 2, 32;" + kStore,
           .threads = 96},
          {}, 96);
  EXPECT_EQ(output, Words(96, 3));
  EXPECT_THAT(failure_of({.body = "setp.lt.u32 %p0, %t, 16; @%p0 bar.sync 0;"}),
              HasSubstr("lanes 0x0000ffff of 0xffffffff are at a barrier of the block"));
}

TEST(BlockBarrier, MisuseIsAnError) {
  EXPECT_THAT(failure_of({.body = "bar.sync 16;"}), HasSubstr("the barriers 0 to 15, not 16"));
  EXPECT_THAT(failure_of({.body = "bar.sync 0, 33;"}), HasSubstr("a multiple of 32 threads, not for 33"));
  EXPECT_THAT(failure_of({.body = "setp.lt.u32 %p0, %t, 32; @%p0 bar.sync 1, 96; bar.sync 1, 64;", .threads = 64}),
              HasSubstr("barrier 1 is for 64 threads, and other warps use it for 96"));
}

TEST(Spinning, WarpsThatWaitForAFlagLetTheOthersRun) {
  for (const char* flag : {"ld.volatile.shared.u32 %r1, [flag];", "ld.acquire.cta.shared.u32 %r1, [flag];",
                           "atom.shared.add.u32 %r1, [flag], 0;"}) {
    const Words output = run({.body = std::string(R"(
      st.shared.u32 [flag], 0; bar.sync 0; setp.ge.u32 %p0, %t, 32; @%p0 bra $set;
    $spin: )") + flag + R"(
      setp.eq.u32 %p1, %r1, 0; @%p1 bra $spin;
      mov.u32 %r0, %r1; bra.uni $end;
    $set: mov.u32 %r0, 1; mov.u32 %r2, 0;
    $work: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 20000; @%p1 bra $work;
      st.volatile.shared.u32 [flag], 9;
    $end:)" + kStore,
                              .declarations = ".shared .align 4 .u32 flag;",
                              .threads = 64},
                             {}, 64);
    EXPECT_EQ(output[0], 9u);
    EXPECT_EQ(output[63], 1u);
  }
}

const std::string kSpin = "$spin: ld.volatile.global.u32 %r1, [%in]; setp.eq.u32 %p1, %r1, 0; @%p1 bra $spin;";

TEST(Spinning, ForWhatNobodyWritesIsADeadlock) {
  const std::string failure = failure_of({.body = kSpin, .threads = 64, .blocks = 8}, {0});
  EXPECT_THAT(failure, HasSubstr("deadlock: warp 0 at bra"));
  EXPECT_THAT(failure, HasSubstr("in a loop; warp 1 at bra"));
}

/// Blocks begin in order, as many at a time as there are processors.
TEST(Spinning, ForABlockThatHasNotBegunIsADeadlockThatSaysSo) {
  const std::string body =
      "mov.u32 %r0, %ctaid.x; mov.u32 %r2, %nctaid.x; sub.u32 %r2, %r2, 1; "
      "setp.eq.u32 %p0, %r0, %r2; @%p0 bra $set;" +
      kSpin + "$set: st.global.u32 [%in], 5;";
  const unsigned blocks = std::thread::hardware_concurrency() + 5;
  EXPECT_THAT(failure_of({.body = body, .blocks = blocks}, {0}),
              HasSubstr("5 of the launch's clusters have not begun"));
}

/// Block 0 waits for block 1. With one processor this is a deadlock of the CPU device.
TEST(Spinning, OnAnotherBlocksFlag) {
  const std::string body = "mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 1; @%p0 bra $set;" + kSpin +
                           "st.global.u32 [%out], %r1; bra.uni $end; $set: st.global.u32 [%in], 5; $end:";
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  EXPECT_EQ(run({.body = body, .blocks = 2}, {0}, 1), Words{5});
}

TEST(Spinning, WithACounterEndsWithThePatience) {
  const std::string failure =
      failure_of({.body = "mov.u64 %d0, 0; $spin: add.u64 %d0, %d0, 1; ld.volatile.global.u32 %r1, [%in]; "
                          "setp.eq.u32 %p1, %r1, 0; @%p1 bra $spin;",
                  .patience = std::chrono::milliseconds(100)},
                 {0});
  EXPECT_THAT(failure, HasSubstr("no progress within the time limit: warp 0 at bra"));
}

}  // namespace
}  // namespace cubit::tests
