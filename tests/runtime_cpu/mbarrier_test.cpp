// Tests of mbarriers: counting, phases, waiting, and the reports of phases that never end. PTX ISA, "mbarrier".
#include <gmock/gmock.h>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

const std::string kBarrier = ".shared .align 8 .b64 bar;\n.shared .align 8 .b64 other;\n.shared .align 4 .u32 value;";
const std::string kStore = "\n mad.wide.u32 %out, %t, 4, %out;\n st.global.u32 [%out], %r0;\n";

/// Runs `body` on one thread and returns the bits that `body` leaves in %r0.
std::uint32_t single(const std::string& body) {
  return run({.body = body + kStore, .declarations = kBarrier, .threads = 1}, {}, 1)[0];
}
std::string failure(const std::string& body, unsigned threads = 1) {
  return failure_of({.body = body, .declarations = kBarrier, .threads = threads});
}
/// Shifts one bit into %r0: whether the phase of `parity` has ended.
std::string ask(int parity) {
  return "mbarrier.test_wait.parity.shared::cta.b64 %p0, [bar], " + std::to_string(parity) +
         "; selp.u32 %r9, 1, 0, %p0; shl.b32 %r0, %r0, 1; or.b32 %r0, %r0, %r9;\n";
}
const std::string kArrive = "mbarrier.arrive.shared::cta.b64 %d0, [bar];\n";

TEST(Mbarrier, PhasesEndWithTheirLastArrival) {
  EXPECT_EQ(single("mov.u32 %r0, 0; mbarrier.init.shared.b64 [bar], 2;" + ask(0) + ask(1) + kArrive + ask(0) + kArrive +
                   ask(0) + ask(1) + kArrive + kArrive + ask(1) + ask(0)),
            0b0101010u);
}

TEST(Mbarrier, EveryFormOfArrivalCounts) {
  for (const char* arrival :
       {"mbarrier.arrive.shared.b64 _, [bar], 3;", "mbarrier.arrive.release.cta.shared::cta.b64 %d0, [bar], 3;",
        "mbarrier.arrive.relaxed.cluster.shared::cta.b64 %d0, [bar], 3;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar], 3;",
        "mbarrier.arrive.noComplete.shared.b64 %d0, [bar], 2; mbarrier.arrive.shared.b64 %d0, [bar];",
        "cvt.u64.u32 %d1, %r8; cvta.shared.u64 %d1, %d1; mbarrier.arrive.b64 %d0, [%d1], 3;",
        "mbarrier.arrive.expect_tx.shared.b64 %d0, [bar], 64; mbarrier.arrive.shared.b64 %d0, [bar], 2; "
        "mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [bar], 64;",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16; mbarrier.complete_tx.shared.b64 [bar], 16; "
        "mbarrier.arrive.shared.b64 _, [bar], 3;"}) {
    SCOPED_TRACE(arrival);
    EXPECT_EQ(single("mov.u32 %r0, 0; mov.u32 %r8, bar; mbarrier.init.shared.b64 [bar], 3;" + ask(0) + arrival +
                     ask(0) + ask(1)),
              0b010u);
  }
}

TEST(Mbarrier, BytesKeepAPhaseFromEnding) {
  EXPECT_EQ(single("mov.u32 %r0, 0; mbarrier.init.shared.b64 [bar], 1; "
                   "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 48;" +
                   ask(0) + "mbarrier.complete_tx.shared.b64 [bar], 32;" + ask(0) +
                   "mbarrier.complete_tx.shared.b64 [bar], 16;" + ask(0)),
            0b001u);
}

TEST(Mbarrier, TokensNameTheirPhase) {
  EXPECT_EQ(single("mov.u32 %r0, 0; mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %d0, [bar]; "
                   "mbarrier.test_wait.shared.b64 %p0, [bar], %d0; selp.u32 %r1, 1, 0, %p0; "
                   "mbarrier.arrive.shared.b64 %d1, [bar]; mbarrier.pending_count.b64 %r2, %d1; "
                   "mbarrier.try_wait.shared.b64 %p0, [bar], %d0; selp.u32 %r3, 1, 0, %p0; "
                   "mad.lo.u32 %r0, %r1, 100, %r3; mad.lo.u32 %r0, %r2, 10, %r0;"),
            11u);
}

TEST(Mbarrier, DroppingLowersThePhasesToCome) {
  EXPECT_EQ(single("mov.u32 %r0, 0; mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive_drop.shared.b64 _, [bar];" +
                   ask(0) + kArrive + ask(0) + kArrive + ask(1)),
            0b011u);
}

TEST(Mbarrier, MisuseIsAnError) {
  EXPECT_THAT(failure("mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 _, [bar], 2;"),
              HasSubstr("2 arrivals at an mbarrier that expects 1 more of 1 in this phase"));
  EXPECT_THAT(failure("mbarrier.init.shared.b64 [bar], 0;"), HasSubstr("for 1 to 1048575 arrivals, not 0"));
  EXPECT_THAT(failure(kArrive), HasSubstr("there is no mbarrier: it was not initialised"));
  EXPECT_THAT(failure("mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar];" + kArrive),
              HasSubstr("there is no mbarrier"));
  EXPECT_THAT(failure("mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 %d0, [bar], 1;"),
              HasSubstr("an arrival with .noComplete ends the phase"));
  EXPECT_THAT(failure("mbarrier.init.shared.b64 [bar], 1; mbarrier.expect_tx.shared.b64 [bar], 1048576;"),
              HasSubstr("1048576 bytes: an mbarrier counts at most 1048575"));
  EXPECT_THAT(failure("mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1+4], 1;"), HasSubstr("is not a multiple of 8"));
}

/// A bounded buffer of one word between warps: eight phases of each of two mbarriers.
std::string pipeline(const std::string& wait) {
  return R"(
    setp.ne.u32 %p0, %t, 0; @%p0 bra $ready;
    mbarrier.init.shared.b64 [bar], 32; mbarrier.init.shared.b64 [other], 32;
  $ready:
    bar.sync 0; mov.u32 %r2, 0; mov.u32 %r0, 0;
    setp.ge.u32 %p0, %t, 32; @%p0 bra $producer;
  $consumer:
    and.b32 %r3, %r2, 1;
  $full: )" +
         wait + R"( %p1, [bar], %r3; @!%p1 bra $full;
    ld.shared.u32 %r4, [value]; mad.lo.u32 %r0, %r0, 3, %r4;
    mbarrier.arrive.shared.b64 _, [other];
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 8; @%p1 bra $consumer;
    bra.uni $end;
  $producer:
    and.b32 %r3, %r2, 1; xor.b32 %r3, %r3, 1;
  $empty: )" +
         wait + R"( %p1, [other], %r3; @!%p1 bra $empty;
    st.shared.u32 [value], %r2;
    mbarrier.arrive.shared.b64 _, [bar];
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 8; @%p1 bra $producer;
  $end:)" +
         kStore;
}

TEST(Mbarrier, WarpsHandWordsToEachOther) {
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < 8; ++i) expected = expected * 3 + i;
  for (const char* wait : {"mbarrier.try_wait.parity.shared::cta.b64", "mbarrier.test_wait.parity.shared.b64",
                           "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"}) {
    SCOPED_TRACE(wait);
    EXPECT_EQ(run({.body = pipeline(wait), .declarations = kBarrier, .threads = 64}, {}, 64)[0], expected);
  }
}

/// The suspended warp sees the phase end without a loop.
TEST(Mbarrier, TryWaitSuspendsTheWarp) {
  const Words output = run({.body = R"(
    setp.ne.u32 %p0, %t, 0; @!%p0 mbarrier.init.shared.b64 [bar], 32; bar.sync 0; mov.u32 %r0, 7;
    setp.ge.u32 %p0, %t, 32; @%p0 bra $other_warp;
    mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0, 1000; selp.u32 %r0, 1, 0, %p1; bra.uni $end;
  $other_warp: mbarrier.arrive.shared.b64 _, [bar];
  $end:)" + kStore,
                            .declarations = kBarrier,
                            .threads = 64},
                           {}, 64);
  EXPECT_EQ(output[0], 1u);
  EXPECT_EQ(output[63], 7u);
}

TEST(Mbarrier, TryWaitGivesUpWhenNobodyElseCanGoOn) {
  EXPECT_EQ(single("mbarrier.init.shared.b64 [bar], 1; mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; "
                   "selp.u32 %r0, 1, 2, %p1;"),
            2u);
}

TEST(Mbarrier, AWaitForAPhaseThatNeverEndsIsADeadlock) {
  for (const char* wait :
       {"mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;", "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;"}) {
    const std::string text = failure(std::string("mbarrier.init.shared.b64 [bar], 70; mbarrier.expect_tx.shared.b64 "
                                                 "[bar], 16; mbarrier.arrive.shared.b64 _, [bar]; $loop: ") +
                                         wait + " @!%p1 bra $loop;",
                                     1);
    EXPECT_THAT(text, HasSubstr("deadlock: warp 0 at "));
    if (std::string(wait).find("try") == std::string::npos) continue;
    EXPECT_THAT(text, HasSubstr("mbarrier.try_wait.parity.shared.b64, PTX line 18"));
    EXPECT_THAT(text, HasSubstr("waiting for the end of phase 0 of the mbarrier at 0x0, which still needs 69 of 70 "
                                "arrivals and 16 bytes"));
  }
}

/// A consumer that begins with the parity of the previous phase is one phase ahead. In the end no warp can continue.
TEST(Mbarrier, TheWrongParityPassesAtOnce) {
  std::string body = pipeline("mbarrier.try_wait.parity.shared::cta.b64");
  const std::string right = "and.b32 %r3, %r2, 1;\n  $full";
  body.replace(body.find(right), right.size(), "and.b32 %r3, %r2, 1; xor.b32 %r3, %r3, 1;\n  $full");
  const std::string text = failure(body, 64);
  EXPECT_THAT(text, HasSubstr("deadlock: warp 0 at mbarrier.try_wait"));
  EXPECT_THAT(text, HasSubstr("waiting for the end of phase 1 of the mbarrier at 0x0, which still needs 32 of 32"));
  EXPECT_EQ(single("mov.u32 %r0, 0; mbarrier.init.shared.b64 [bar], 1;" + ask(1)), 1u);
}

TEST(Mbarrier, BlocksOfAClusterArriveAtEachOther) {
  const Words output = run({.body = R"(
    setp.ne.u32 %p0, %t, 0; @!%p0 mbarrier.init.shared.b64 [bar], 64;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r1, bar; mov.u32 %r2, 0; mapa.shared::cluster.u32 %r3, %r1, %r2;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
    mov.u32 %r0, %cluster_ctarank; setp.ne.u32 %p0, %r0, 0; @%p0 bra $end;
  $loop: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0; @!%p1 bra $loop;
    st.global.u32 [%out], 3;
  $end: barrier.cluster.arrive; barrier.cluster.wait;)",
                            .declarations = kBarrier,
                            .blocks = 2,
                            .cluster = {2, 1, 1}},
                           {}, 1);
  EXPECT_EQ(output[0], 3u);
}

/// The thread's copies land, and its arrival counts, when a warp waits.
TEST(Mbarrier, CopiesOfThreadsArriveAtIt) {
  for (const bool noinc : {false, true}) {
    const std::string arrive = noinc ? "" : "@!%p0 mbarrier.arrive.shared.b64 _, [bar]; ";
    // Without .noinc the 32 arrivals are added to the phase, which then waits for one more arrival.
    const std::string init = noinc ? "32" : "1";
    const Words output = run({.body = "setp.ne.u32 %p0, %t, 0; @!%p0 mbarrier.init.shared.b64 [bar], " + init +
                                      "; bar.warp.sync -1; mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; "
                                      "add.u32 %r1, %r1, %r2; mad.wide.u32 %in, %t, 4, %in; "
                                      "cp.async.ca.shared.global [%r1], [%in], 4; cp.async.mbarrier.arrive" +
                                      (noinc ? ".noinc" : "") + ".shared.b64 [bar]; " + arrive + R"(
      ld.shared.u32 %r5, [%r1];
    $loop: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra $loop;
      ld.shared.u32 %r0, [%r1]; sub.u32 %r0, %r0, %r5;)" +
                                      kStore,
                              .declarations = kBarrier + "\n.shared .align 16 .b8 buffer[128];"},
                             Words(32, 41), 32);
    EXPECT_EQ(output, Words(32, 42));
  }
}

}  // namespace
}  // namespace cubit::tests
