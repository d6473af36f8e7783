// Tests the checker with small kernels. Each kernel is right as it is, and is reported when the one necessary part is
// left out. PTX ISA, "Memory Consistency Model", "Asynchronous operations", "mbarrier".
#include <gmock/gmock.h>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;

const char* const kShared =
    ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 tile[512];\n.shared .align 8 .b64 flag;\n"
    ".global .align 16 .b8 place[512];\n.global .align 8 .b64 word;";

/// Returns `text` with its part in [ ] kept or left out.
std::string text_with(const std::string& text, bool whole) {
  const std::size_t first = text.find("<<");
  const std::size_t last = text.find(">>");
  return text.substr(0, first) + (whole ? text.substr(first + 2, last - first - 2) : "") + text.substr(last + 2);
}

/// `body` has one part in << >>. Without this part the checker must report `rule`.
void expect_needed(const std::string& body, const std::string& rule, Case given = {.threads = 64}) {
  SCOPED_TRACE(body);
  given.declarations = kShared;
  given.check = true;
  const std::vector<std::uint32_t> input(128, 5);
  given.body = text_with(body, true);
  EXPECT_EQ(failure_of(given, input, 128), "");
  given.body = text_with(body, false);
  EXPECT_THAT(failure_of(given, input, 128), HasSubstr(rule));
}

const Case kTwoBlocks = {.threads = 32, .blocks = 2};

/// %p0: the block's first thread; %p1: the second warp; %r1: the tile; %r8: the mbarrier.
const std::string kNames =
    "setp.eq.u32 %p0, %t, 0; setp.ge.u32 %p1, %t, 32; setp.eq.u32 %p2, %t, 32; mov.u32 %r1, tile; mov.u32 %r8, bar; "
    "mov.u64 %d0, place; mov.u64 %d1, word; mov.u32 %r9, %ctaid.x; setp.eq.u32 %p3, %r9, 0;\n";
const std::string kInit = kNames + "@%p0 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;\n";
std::string wait(const std::string& label = "$wait") {
  return label + ": mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra " + label + ";\n";
}

// ---- mbarrier objects ----

TEST(LitmusMbarrier, IsKnownAfterItsInitialisation) {
  expect_needed(
      kNames + "@%p0 mbarrier.init.shared.b64 [bar], 1; <<bar.sync 0;>> @%p2 mbarrier.arrive.shared.b64 _, [bar];",
      "race in shared memory at 0x0: this read is not ordered after the write by warp 0");
}

TEST(LitmusMbarrier, IsNoMemoryWhileItLives) {
  expect_needed(kInit +
                    "@%p0 mbarrier.arrive.shared.b64 _, [bar]; bar.sync 0; @%p2 <<mbarrier.inval.shared.b64 [bar];\n"
                    "@%p2>> st.shared.u64 [bar], 0;",
                "8 bytes at shared memory 0x0 are written, where an mbarrier is");
  expect_needed(kInit +
                    "<<@%p0 mbarrier.inval.shared.b64 [bar]; @%p0 st.shared.u64 [bar], 0; bar.sync 0;>>\n"
                    "ld.shared.u32 %r0, [bar+4];",
                "4 bytes at shared memory 0x4 are read, where an mbarrier is");
}

TEST(LitmusMbarrier, IsInitialisedOnce) {
  expect_needed(kInit + "<<@%p0 mbarrier.inval.shared.b64 [bar];>> @%p0 mbarrier.init.shared.b64 [bar], 1;",
                "the mbarrier at 0x0 is initialised again, without an mbarrier.inval");
}

/// 2.0f in its upper half looks like an mbarrier to code that does not know where the mbarriers are.
TEST(LitmusMbarrier, IsWhereItWasInitialised) {
  expect_needed(kNames +
                    "@%p0 st.shared.u64 [bar], 0x4000000000400002; <<@%p0 mbarrier.init.shared.b64 [bar], 1;>> "
                    "bar.sync 0; @%p2 mbarrier.arrive.shared.b64 _, [bar];",
                "there is no mbarrier at 0x0: it was not initialised");
}

TEST(LitmusMbarrier, EndsWhenNobodyUsesIt) {
  expect_needed(
      kInit + "@%p2 mbarrier.arrive.shared.b64 _, [bar]; <<bar.sync 0;>> @%p0 mbarrier.inval.shared.b64 [bar];",
      "race in shared memory at 0x0: this write is not ordered after the read by warp 1");
}

/// A relaxed arrival publishes what is behind a fence. A relaxed wait acquires at the next fence.
TEST(LitmusMbarrier, FencesAroundRelaxedArrivalsAndWaitsMakeOrder) {
  const auto body = [](const std::string& first, const std::string& second) {
    return kInit + "@%p2 bra $reader; @%p1 ret; @!%p0 ret; st.shared.u32 [tile], 1; " + first +
           "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar]; bra.uni $end;\n$reader:\n"
           "$again: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p4, [bar], 0; @!%p4 bra $again;\n" +
           second + "ld.shared.u32 %r4, [tile];\n$end:";
  };
  expect_needed(body("<<fence.acq_rel.cta;>>", "fence.acq_rel.cta; "), "race in shared memory at 0x10");
  expect_needed(body("fence.acq_rel.cta; ", "<<fence.acq_rel.cta;>>"), "race in shared memory at 0x10");
}

TEST(LitmusCluster, ARelaxedArrivalAtItsBarrierTellsOfWhatIsBehindAFence) {
  expect_needed(kNames +
                    "@%p0 st.shared.u32 [tile], 1; <<fence.acq_rel.cluster;>> barrier.cluster.arrive.relaxed; "
                    "barrier.cluster.wait; xor.b32 %r9, %r9, 1; mapa.shared::cluster.u32 %r2, %r1, %r9; "
                    "ld.shared::cluster.u32 %r3, [%r2]; barrier.cluster.arrive; barrier.cluster.wait;",
                "race in shared memory", {.threads = 32, .blocks = 2, .cluster = {2, 1, 1}});
}

/// For mbarriers alone a lighter fence suffices. This fence publishes nothing else.
TEST(LitmusCluster, ARelaxedArrivalAtItsBarrierTellsOfMbarriersBehindTheirFence) {
  const std::string meet = "barrier.cluster.arrive.relaxed; barrier.cluster.wait; xor.b32 %r9, %r9, 1; ";
  const std::string init = "@%p0 mbarrier.init.shared.b64 [bar], 1; ";
  const Case pair = {.threads = 32, .blocks = 2, .cluster = {2, 1, 1}};
  expect_needed(kNames + init + "<<fence.mbarrier_init.release.cluster;>> " + meet +
                    "mov.u32 %r2, bar; mapa.shared::cluster.u32 %r2, %r2, %r9; "
                    "@%p0 mbarrier.arrive.shared::cluster.b64 _, [%r2]; barrier.cluster.arrive; barrier.cluster.wait;",
                "race in shared memory", pair);
  expect_needed(kNames + init + "@%p0 st.shared.u32 [tile], 1; fence.mbarrier_init.release.cluster; " +
                    "<<fence.acq_rel.cluster;>> " + meet +
                    "mapa.shared::cluster.u32 %r2, %r1, %r9; ld.shared::cluster.u32 %r3, [%r2]; "
                    "barrier.cluster.arrive; barrier.cluster.wait;",
                "race in shared memory", pair);
}

// ---- cp.async ----

const std::string kCopy =
    "shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; cvt.u64.u32 %d2, %r2; add.u64 %d2, %in, %d2;\n"
    "@!%p1 cp.async.ca.shared.global [%r3], [%d2], 4;\n";

TEST(LitmusCopy, IsThereForWhoWaitsForItsArrival) {
  expect_needed(kNames + "@%p0 mbarrier.init.shared.b64 [bar], 32; bar.sync 0;\n" + kCopy +
                    "@!%p1 cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; bar.sync 0;\n<<" + wait() +
                    ">>@%p1 ld.shared.u32 %r4, [%r3+-128];",
                "while an asynchronous copy to it is under way");
}

/// The arrival publishes the copies, and nothing else that its thread has done.
TEST(LitmusCopy, ItsArrivalTellsOfCopiesOnly) {
  expect_needed(kNames + "@%p0 mbarrier.init.shared.b64 [bar], 33; bar.sync 0;\n" + kCopy +
                    "@%p0 st.shared.u32 [%r1+256], 7; @!%p1 cp.async.mbarrier.arrive.noinc.shared.b64 [bar];\n"
                    "<<@%p0 mbarrier.arrive.shared.b64 _, [bar]; bra.uni $skip;>>\n"
                    "@%p2 mbarrier.arrive.shared.b64 _, [bar];\n$skip:" +
                    wait() + "@%p1 ld.shared.u32 %r4, [%r1+256];",
                "race in shared memory at 0x");
}

/// Waiting for the thread's own copies and then at a barrier has the same effect.
TEST(LitmusCopy, IsThereAfterAWaitAndABarrier) {
  expect_needed(kNames + kCopy + "cp.async.wait_all; <<bar.sync 0;>> @%p1 ld.shared.u32 %r4, [%r3+-128];",
                "race in shared memory");
}

// ---- the async proxy ----

const std::string kExpectBytes = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n";
const std::string kBring =
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], 128, [%r8];\n";
const std::string kSend =
    "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 128; "
    "@%p0 cp.async.bulk.commit_group;\n";
const std::string kFill = "shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %t;\n";

TEST(LitmusProxy, BulkCopiesReadGlobalMemoryBehindAFence) {
  expect_needed(kInit + "@%p0 st.global.u32 [place], 1; <<@%p0 fence.proxy.async.global;>>\n" + kExpectBytes + kBring +
                    wait() + "ld.shared.u32 %r4, [tile];",
                "global memory 0x");
  expect_needed(kInit +
                    "@%p0 st.global.u32 [place], 1; <<@%p0 fence.proxy.async;>>@%p0 fence.proxy.async.shared::cta;\n" +
                    kExpectBytes + kBring + wait() + "ld.shared.u32 %r4, [tile];",
                "is used by a bulk copy without a fence.proxy.async after the write by warp 0");
}

TEST(LitmusProxy, WhatABulkCopyReadsIsNotWritten) {
  expect_needed(
      kInit + kExpectBytes + kBring + "<<" + wait() + ">>@%p0 st.global.u32 [place+64], 1;\n" + wait("$again"),
      "is written while a bulk copy from it is under way");
}

TEST(LitmusProxy, BulkCopiesWriteGlobalMemoryBehindAFence) {
  expect_needed(kNames + kFill +
                    "@%p0 st.global.u32 [place], 1; fence.proxy.async.shared::cta; "
                    "<<@%p0 fence.proxy.async.global;>> bar.sync 0;\n" +
                    kSend + "@%p0 cp.async.bulk.wait_group 0;",
                "is used by a bulk copy without a fence.proxy.async after the write by warp 0");
}

TEST(LitmusProxy, GlobalMemoryIsThereWhenItsGroupIsWaitedFor) {
  const std::string sent = kNames + kFill + "fence.proxy.async.shared::cta; bar.sync 0;\n" + kSend;
  expect_needed(sent +
                    "<<@%p0 cp.async.bulk.wait_group 0;>> @%p0 ld.global.u32 %r4, [place+4]; "
                    "@%p0 cp.async.bulk.wait_group.read 0;",
                "while an asynchronous copy to it is under way");
  expect_needed(sent +
                    "@%p0 cp.async.bulk.wait_group.read 0; <<@%p0 cp.async.bulk.wait_group 0;>> "
                    "@%p0 ld.global.u32 %r4, [place+4];",
                "while an asynchronous copy to it is under way");
  expect_needed(sent + "@%p0 cp.async.bulk.wait_group 0; <<bar.sync 0;>> @%p1 ld.global.u32 %r4, [place+4];",
                "race in global memory");
}

// ---- sizes of accesses, and reductions ----

TEST(LitmusSizes, BytesOfAWordHaveTheirOwnWriters) {
  // The third warp reads the bytes of the first warp. In between, the second warp has written neighbouring bytes.
  expect_needed(kNames +
                    "@%p0 st.shared.u8 [tile], 1; @%p0 bar.warp.sync 1;\n setp.eq.u32 %p5, %t, 64;\n"
                    "setp.lt.u32 %p6, %t, 64; @%p6 bar.sync 1, 64; @%p2 st.shared.u8 [tile+1], 2;\n"
                    "<<bar.sync 0;>> @%p5 ld.shared.u8 %r4, [tile];",
                "race in shared memory at 0x10: this read is not ordered after the write by warp 0", {.threads = 96});
}

TEST(LitmusSizes, ReadersOfOtherBytesAreNotForgotten) {
  expect_needed(kNames +
                    "@%p0 st.shared.u16 [tile], 1; bar.sync 0; setp.eq.u32 %p5, %t, 64;\n"
                    "@%p5 ld.shared.u8 %r4, [tile]; @%p0 st.shared.u8 [tile+1], 2;\n"
                    "<<bar.sync 0;>> @%p2 st.shared.u8 [tile], 3;",
                "race in shared memory at 0x10: this write is not ordered after the read by warp 2", {.threads = 96});
}

/// A flag of 64 bits. The other side reads one half. The accesses are not morally strong, so they race.
TEST(LitmusSizes, StrongAccessesOverlapCompletelyOrRace) {
  expect_needed(kNames +
                    "@%p0 st.relaxed.cta.shared.u32 [flag], 1; bar.sync 0; @%p0 st.relaxed.cta.shared.u64 [flag], 2; "
                    "<<bar.sync 0;>> @%p2 ld.relaxed.cta.shared.u32 %r4, [flag];",
                "race in shared memory");
}

TEST(LitmusReduction, IsNoOrder) {
  // Relaxed accesses do not race with each other, and do not publish earlier writes.
  expect_needed(kNames +
                    "@%p0 st.global.u32 [place], 7; <<@%p0 fence.acq_rel.gpu;>> @%p0 red.relaxed.gpu.global.add.u32 "
                    "[word], 1;\n bar.warp.sync -1; @%p2 bra $see; bra.uni $end;\n"
                    "$see: ld.relaxed.gpu.global.u32 %r5, [word]; fence.acq_rel.gpu; ld.global.u32 %r4, [place];\n"
                    "$end:",
                "race in global memory");
}

TEST(LitmusReduction, RacesWithAnOrdinaryAccess) {
  expect_needed(kNames +
                    "@%p0 st.shared.u32 [flag], 0; bar.sync 0; @%p0 red.shared.add.u32 [flag], 1; @%p2 "
                    "red.shared.add.u32 [flag], 1; <<bar.sync 0;>> "
                    "@%p0 st.shared.u32 [flag], 5;",
                "race in shared memory");
}

TEST(LitmusReduction, InBulkEndsWhenItIsWaitedFor) {
  expect_needed(kNames + kFill +
                    "@%p0 st.global.u64 [place], 1; fence.proxy.async; bar.sync 0;\n"
                    "@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%r1], 16; "
                    "@%p0 cp.async.bulk.commit_group; <<@%p0 cp.async.bulk.wait_group 0;>> "
                    "@%p0 ld.global.u32 %r4, [place]; @%p0 cp.async.bulk.wait_group.read 0;",
                "while an asynchronous copy to it is under way");
}

/// Two reductions to one place are in one proxy. Other bytes of a word do not belong to the copy.
TEST(LitmusReduction, InBulkDoesNotMindItsLike) {
  const std::string add =
      "@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%r1], 16; @%p0 "
      "cp.async.bulk.commit_group;\n";
  expect_needed(kNames + kFill +
                    "@%p0 st.global.u64 [place], 1; @%p0 st.global.u64 [place+8], 1; "
                    "fence.proxy.async.shared::cta; <<fence.proxy.async.global;>> bar.sync 0;\n" +
                    add + add + "@%p0 cp.async.bulk.wait_group 0;",
                "without a fence.proxy.async");
}

// ---- scopes ----

/// Replaces `scope` in both kernels: one block releases, and the other acquires.
void expect_scope(const std::string& right, const std::string& wrong, const Case& given) {
  for (const bool good : {true, false}) {
    Case made = given;
    made.declarations = kShared;
    made.check = true;
    const std::string scope = good ? right : wrong;
    made.body = kNames + "@!%p3 bra $second; @%p0 st.global.u32 [place], 7; @%p0 st.release." + scope +
                ".global.u32 [word], 1; bra.uni $end;\n$second: @%p0 ld.acquire." + scope +
                ".global.u32 %r4, [word]; @%p0 ld.global.u32 %r5, [place];\n$end:";
    SCOPED_TRACE(made.body);
    if (good) {
      EXPECT_EQ(failure_of(made, {}, 128), "");
    } else {
      EXPECT_THAT(failure_of(made, {}, 128), HasSubstr("race in global memory"));
    }
  }
}

TEST(LitmusScopes, HoldBothSides) {
  expect_scope("gpu", "cta", kTwoBlocks);
  expect_scope("sys", "cta", kTwoBlocks);
  expect_scope("gpu", "cluster", kTwoBlocks);
  Case pair = kTwoBlocks;
  pair.cluster = {2, 1, 1};
  expect_scope("cluster", "cta", pair);
}

/// Relaxed accesses of different blocks at block scope, with nothing to order.
TEST(LitmusScopes, RelaxedAccessesOfDifferentBlocksRaceInTheScopeOfOne) {
  for (const char* scope : {"gpu", "cta"}) {
    const std::string text = failure_of({.body = kNames + "@%p0 red.relaxed." + scope + ".global.add.u32 [word], 1;",
                                         .declarations = kShared,
                                         .threads = 32,
                                         .blocks = 2,
                                         .check = true},
                                        {}, 128);
    EXPECT_EQ(text.find("race in global memory") != std::string::npos, std::string(scope) == "cta") << text;
  }
}

// ---- other rules ----

TEST(LitmusBarrier, AWarpThatHasEndedTellsNobodyAnything) {
  expect_needed(kNames +
                    "@%p0 st.shared.u32 [tile], 1; <<bar.sync 0;>>\n@!%p1 ret;\n@%p1 bar.sync 1, 32; "
                    "@%p1 ld.shared.u32 %r4, [tile];",
                "race in shared memory");
}

TEST(LitmusReadOnly, MemoryThatALaunchWritesIsNot) {
  expect_needed(kNames +
                    "@%p0 st.global.u32 [place], 1; bar.sync 0; <<ld.global.u32 %r4, [place]; bra.uni $end;>>\n"
                    "ld.global.nc.u32 %r4, [place];\n$end:",
                "is read by ld.global.nc, and was written in this launch by warp 0");
}

}  // namespace
}  // namespace cubit::tests
