// Proves: bulk copies land when they are waited for, and not before. PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk",
// "st.async", "red.async".
#include <gmock/gmock.h>

#include <numeric>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

const std::string kDeclarations = ".shared .align 8 .b64 bar;\n.shared .align 128 .b8 buffer[512];";

Words counted(std::size_t count) {
  Words words(count);
  std::iota(words.begin(), words.end(), 1u);
  return words;
}

const std::string kStart = R"(
  setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1; mov.u32 %r1, buffer; mov.u32 %r8, bar;
  barrier.cluster.arrive; barrier.cluster.wait;
)";
const std::string kExpectBulk = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n";
const std::string kWaitBulk = "$wait: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra $wait;\n";
const std::string kFinish = R"(
  shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1; ld.shared.u32 %r0, [%r2];
  mov.u32 %r3, %ctaid.x; mad.lo.u32 %r3, %r3, 32, %t; mad.wide.u32 %out, %r3, 4, %out; st.global.u32 [%out], %r0;
  barrier.cluster.arrive; barrier.cluster.wait;
)";

std::string copy(const std::string& form) {
  return "@%p0 cp.async.bulk." + form + ".mbarrier::complete_tx::bytes [%r1], [%in], 128, [%r8];\n";
}
const std::string kCopy = copy("shared::cluster.global");

Case copies(const std::string& body) { return {.body = kStart + body + kFinish, .declarations = kDeclarations}; }

TEST(BulkCopy, LandsForWhoWaitsForItsMbarrier) {
  EXPECT_EQ(run(copies(kExpectBulk + kCopy + kWaitBulk), counted(32), 32), counted(32));
  EXPECT_EQ(run(copies(kCopy + kExpectBulk + kWaitBulk), counted(32), 32), counted(32));
  EXPECT_EQ(run(copies(kExpectBulk + copy("shared::cta.global") + kWaitBulk), counted(32), 32), counted(32));
  EXPECT_EQ(run(copies(kExpectBulk +
                       "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], "
                       "[%in], 128, [%r8], %d9;\n" +
                       kWaitBulk),
                counted(32), 32),
            counted(32));
}

TEST(BulkCopy, ReadBeforeTheWaitIsNotThere) {
  const Words output = run(
      copies(kExpectBulk + kCopy + "ld.shared.u32 %r7, [buffer];" + kWaitBulk + "@%p0 st.shared.u32 [buffer], %r7;"),
      counted(32), 32);
  EXPECT_EQ(output[0], 0xffffffff);
  EXPECT_EQ(output[1], 2u);
}

/// The phase ends with the 64 bytes that were announced. Nothing waits for the rest, which is still in flight at the
/// end.
TEST(BulkCopy, BytesThatWereNotAnnouncedAreNotWaitedFor) {
  const std::string expect = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n";
  const auto half = [](int first) {
    const std::string number = std::to_string(first);
    return "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+" + number + "], [%in+" +
           number + "], 64, [%r8];\n";
  };
  EXPECT_THAT(failure_of(copies(expect + half(0) + half(64) + kWaitBulk), counted(32), 32),
              HasSubstr("the cluster ends before any warp has waited for these bytes; cp.async.bulk"));
  const std::string later =
      "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
      "$more: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1; @!%p1 bra $more;\n";
  EXPECT_EQ(run(copies(expect + half(0) + half(64) + kWaitBulk + "ld.shared.u32 %r7, [buffer+64];" + later +
                       "@%p0 st.shared.u32 [buffer], %r7;"),
                counted(32), 32)[0],
            0xffffffff);
}

TEST(BulkCopy, ADeadlockSaysHowManyBytesAreMissing) {
  EXPECT_THAT(failure_of(copies("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 144;\n" + kCopy + kWaitBulk),
                         counted(32), 32),
              HasSubstr("which still needs 0 of 1 arrivals and 16 bytes"));
}

TEST(BulkCopy, MisuseIsAnErrorAtTheCopy) {
  const auto failure = [](const std::string& operands) {
    return failure_of(copies(kExpectBulk + "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " +
                             operands + ";\n"),
                      counted(64), 32);
  };
  EXPECT_THAT(failure("[%r1+8], [%in], 128, [%r8]"),
              HasSubstr("of a bulk copy is not a multiple of 16; cp.async.bulk"));
  EXPECT_THAT(failure("[%r1], [%in+8], 128, [%r8]"), HasSubstr("of a bulk copy is not a multiple of 16"));
  EXPECT_THAT(failure("[%r1], [%in], 120, [%r8]"), HasSubstr("120 bytes of a bulk copy are not a multiple of 16"));
  EXPECT_THAT(failure("[%r1+496], [%in], 32, [%r8]"), HasSubstr("beyond shared memory"));
  EXPECT_THAT(failure("[%r1], [%in], 32, [%r8+4]"), HasSubstr("is not a multiple of 8"));
}

TEST(BulkCopy, GoesToEveryBlockOfItsMask) {
  const std::string multicast =
      "mov.u32 %r4, %cluster_ctarank; setp.eq.and.u32 %p2, %r4, 1, %p0; mov.u16 %s0, 5;\n"
      "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%in], 128, "
      "[%r8], %s0;\n barrier.cluster.arrive; barrier.cluster.wait; setp.eq.u32 %p3, %r4, 1; @%p3 bra $over;\n";
  Case given = copies(kExpectBulk + multicast + kWaitBulk + "$over:\n");
  given.blocks = 3;
  given.cluster = {3, 1, 1};
  Words expected = counted(32);
  expected.resize(64, 0xffffffff);
  for (std::uint32_t i = 1; i <= 32; ++i) expected.push_back(i);
  EXPECT_EQ(run(given, counted(32), 96), expected);
  given.blocks = 2;
  given.cluster = {2, 1, 1};
  EXPECT_THAT(failure_of(given, counted(32), 96),
              HasSubstr("the mask of blocks 0x5 names blocks beyond the cluster's 2"));
}

/// Each block sends its words to the next block: by a bulk copy, by st.async and by red.async.
TEST(BulkCopy, BetweenTheBlocksOfACluster) {
  const std::string fill = R"(
    shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1; mov.u32 %r4, %cluster_ctarank; mad.lo.u32 %r5, %r4, 100, %t;
    st.shared.u32 [%r2+128], %r5; st.shared.u32 [%r2], 1000; barrier.cluster.arrive; barrier.cluster.wait;
    xor.b32 %r4, %r4, 1; mapa.shared::cluster.u32 %r6, %r1, %r4; mapa.shared::cluster.u32 %r7, %r8, %r4;
    mapa.shared::cluster.u32 %r9, %r2, %r4;
  )";
  struct Row {
    const char* text;
    unsigned added;
  };
  for (const Row& row :
       {Row{"add.u32 %r10, %r1, 128; @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
            "[%r6], [%r10], 128, [%r7];\n",
            0},
        Row{"add.u32 %r10, %r1, 128; @%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
            "bytes.add.u32 [%r6], [%r10], 128, [%r7];\n",
            1000},
        Row{"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r9], %r5, [%r7];\n", 0},
        Row{"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r9], %r5, [%r7];\n",
            1000}}) {
    SCOPED_TRACE(row.text);
    Case given = copies(kExpectBulk + fill + row.text + kWaitBulk);
    given.blocks = 2;
    given.cluster = {2, 1, 1};
    const Words output = run(given, {}, 64);
    for (unsigned i = 0; i < 64; ++i) ASSERT_EQ(output[i], (i < 32 ? 100u : 0u) + i % 32 + row.added) << i;
  }
  Case given = copies(kExpectBulk + fill +
                      "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r1], 128, "
                      "[%r8];\n" +
                      kWaitBulk);
  given.blocks = 2;
  given.cluster = {2, 1, 1};
  EXPECT_THAT(failure_of(given, {}, 64), HasSubstr("the mbarrier is not in the block that the bytes go to"));
}

const std::string kToGlobal = R"(
  mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %t; bar.warp.sync -1;
  setp.ne.u32 %p0, %t, 0; @%p0 bra $end;
  cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 128; cp.async.bulk.commit_group;
)";

TEST(BulkCopy, ToGlobalMemoryIsReadAndWrittenWhenItsGroupIsWaitedFor) {
  const auto stored = [](const std::string& rest) {
    return run({.body = kToGlobal + rest + "$end:", .declarations = kDeclarations}, {}, 33);
  };
  Words expected(32);
  std::iota(expected.begin(), expected.end(), 0u);
  expected.push_back(0xcdcdcdcd);
  EXPECT_EQ(stored("cp.async.bulk.wait_group 0;"), expected);
  EXPECT_EQ(stored("cp.async.bulk.wait_group.read 0; st.shared.u32 [%r1], 77;"), expected);
  expected[0] = 77;
  EXPECT_EQ(stored("cp.async.bulk.wait_group.read 1; st.shared.u32 [%r1], 77; cp.async.bulk.wait_group 0;"), expected);
  const std::string read_back =
      "ld.global.u32 %r5, [%out+4]; cp.async.bulk.wait_group 0; st.global.u32 [%out+128], %r5;";
  EXPECT_EQ(stored("cp.async.bulk.wait_group.read 0;" + read_back)[32], 0xcdcdcdcd);
  EXPECT_EQ(stored("cp.async.bulk.wait_group 0;" + read_back)[32], 1u);
}

TEST(BulkCopy, AThreadMayNotEndBeforeItsSharedMemoryIsRead) {
  EXPECT_THAT(failure_of({.body = kToGlobal + "$end:", .declarations = kDeclarations}),
              HasSubstr("the thread ends before this copy has read its shared memory; cp.async.bulk.global"));
}

TEST(BulkCopy, ReducesIntoGlobalMemory) {
  const auto sum = [](const std::string& type, std::uint32_t element, std::uint32_t before) {
    return run({.body = "mov.u32 %r1, buffer; setp.ne.u32 %p0, %t, 0; @%p0 bra $end; st.shared.v4.u32 [%r1], {" +
                        std::to_string(element) + ", 0, 0, 0}; st.global.u32 [%out], " + std::to_string(before) +
                        "; cp.reduce.async.bulk.global.shared::cta.bulk_group." + type +
                        " [%out], [%r1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; $end:",
                .declarations = kDeclarations},
               {}, 4)[0];
  };
  EXPECT_EQ(sum("add.u32", 5, 7), 12u);
  EXPECT_EQ(sum("min.s32", 0xfffffffe, 7), 0xfffffffe);
  EXPECT_EQ(sum("max.u32", 5, 7), 7u);
  EXPECT_EQ(sum("xor.b32", 5, 7), 2u);
  EXPECT_EQ(sum("add.f32", bits_of(1.5f), bits_of(2.25f)), bits_of(3.75f));
  EXPECT_EQ(sum("add.noftz.f16", 0x40003c00, 0x3c003c00), 0x42004000u);
  EXPECT_EQ(sum("add.noftz.bf16", 0x40003f80, 0x3f803f80), 0x40404000u);
}

TEST(BulkCopy, PrefetchesOnlyCheck) {
  EXPECT_EQ(run({.body = "cp.async.bulk.prefetch.L2.global [%in], 128; st.global.u32 [%out], 1;"}, counted(32), 1),
            Words{1});
  EXPECT_THAT(failure_of({.body = "cp.async.bulk.prefetch.L2.global [%in+4], 128;"}, counted(32)),
              HasSubstr("of a bulk copy is not a multiple of 16; cp.async.bulk.prefetch"));
  EXPECT_THAT(failure_of({.body = "mov.u64 %d0, 16; cp.async.bulk.prefetch.L2.global [%d0], 128;"}),
              HasSubstr("are in no allocation"));
}

}  // namespace
}  // namespace cubit::tests
