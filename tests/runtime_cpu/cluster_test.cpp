// Tests of clusters: ranks, access to other blocks' shared memory, and the cluster barrier. PTX ISA, "Special
// Registers", "mapa", "getctarank", "barrier.cluster".
#include <gmock/gmock.h>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

const std::string kPair = ".explicitcluster .reqnctapercluster 2, 1, 1";

/// Puts the thread's number in the grid into %r31, and the address of its output word into %out.
const std::string kOwnWord = R"(
  mov.u32 %r30, %ctaid.x; mov.u32 %r31, %ntid.x; mad.lo.u32 %r31, %r30, %r31, %t;
  mad.wide.u32 %out, %r31, 4, %out;
)";

Words of_each_block(const std::string& instruction, const std::string& directives, unsigned blocks) {
  return run({.body = instruction + " mov.u32 %r31, %ctaid.x; mad.wide.u32 %out, %r31, 4, %out; "
                                    "st.global.u32 [%out], %r0;",
              .blocks = blocks,
              .directives = directives},
             {}, blocks);
}

TEST(Cluster, SpecialRegistersSayWhichBlockOfWhichCluster) {
  const auto value = [](const std::string& name) { return of_each_block("mov.u32 %r0, " + name + ";", kPair, 4); };
  EXPECT_EQ(value("%cluster_ctaid.x"), (Words{0, 1, 0, 1}));
  EXPECT_EQ(value("%cluster_ctarank"), (Words{0, 1, 0, 1}));
  EXPECT_EQ(value("%clusterid.x"), (Words{0, 0, 1, 1}));
  EXPECT_EQ(value("%nclusterid.x"), (Words{2, 2, 2, 2}));
  EXPECT_EQ(value("%nclusterid.y"), (Words{1, 1, 1, 1}));
  EXPECT_EQ(value("%cluster_nctaid.x"), (Words{2, 2, 2, 2}));
  EXPECT_EQ(value("%cluster_nctarank"), (Words{2, 2, 2, 2}));
  const std::string is_explicit = "mov.pred %p0, %is_explicit_cluster; selp.u32 %r0, 1, 0, %p0;";
  EXPECT_EQ(of_each_block(is_explicit, kPair, 2), (Words{1, 1}));
  EXPECT_EQ(of_each_block(is_explicit, "", 2), (Words{0, 0}));
  EXPECT_EQ(of_each_block("mov.u32 %r0, %cluster_nctarank;", "", 2), (Words{1, 1}));
}

TEST(Cluster, ItsSizeComesFromTheLaunchToo) {
  const Words ranks = run({.body = "mov.u32 %r0, %cluster_ctarank;" + kOwnWord + "st.global.u32 [%out], %r0;",
                           .threads = 1,
                           .blocks = 4,
                           .cluster = {4, 1, 1}},
                          {}, 4);
  EXPECT_EQ(ranks, (Words{0, 1, 2, 3}));
}

TEST(Cluster, ReachesOverRowsOfBlocks) {
  const Words output = run({.body = R"(
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mad.lo.u32 %r2, %r1, 4, %r0; mad.wide.u32 %out, %r2, 16, %out;
    mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, %cluster_ctaid.y; mov.u32 %r5, %clusterid.x; mov.u32 %r6, %nclusterid.y;
    st.global.v4.u32 [%out], {%r3, %r4, %r5, %r6};)",
                            .threads = 1,
                            .blocks = 4,
                            .rows = 2,
                            .directives = ".reqnctapercluster 2, 2, 1"},
                           {}, 32);
  for (unsigned y = 0; y < 2; ++y) {
    for (unsigned x = 0; x < 4; ++x) {
      const std::size_t at = 4 * (4 * y + x);
      EXPECT_EQ(
          Words(output.begin() + static_cast<std::ptrdiff_t>(at), output.begin() + static_cast<std::ptrdiff_t>(at + 4)),
          (Words{2 * y + x % 2, y, x / 2, 1}));
    }
  }
}

TEST(Cluster, SizesThatDoNotFitAreErrors) {
  EXPECT_THAT(failure_of({.blocks = 3, .directives = kPair}), HasSubstr("a grid is made of whole clusters"));
  EXPECT_THAT(failure_of({.blocks = 4, .directives = kPair, .cluster = {4, 1, 1}}), HasSubstr("requires (2, 1, 1)"));
}

const std::string kClusterSync = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";

/// Every thread reads the word of the thread with the same number in the other block, through `access`.
Case swap_words(const std::string& access, const std::string& before) {
  return {.body = R"(
    mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; add.s32 %r1, %r1, %r2;
    mov.u32 %r3, %cluster_ctarank; mad.lo.u32 %r4, %r3, 1000, %t;
    st.shared.u32 [%r1], %r4;
    )" + before + R"(
    xor.b32 %r5, %r3, 1;
    )" + access + kClusterSync +
                  kOwnWord + "st.global.u32 [%out], %r0;",
          .declarations = ".shared .align 4 .b8 buffer[256];",
          .threads = 64,
          .blocks = 4,
          .directives = kPair};
}

TEST(Cluster, ReadsTheOtherBlocksSharedMemory) {
  for (const char* access :
       {"mapa.shared::cluster.u32 %r6, %r1, %r5; ld.shared::cluster.u32 %r0, [%r6];",
        "cvt.u64.u32 %d0, %r1; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, %r5; ld.u32 %r0, [%d1];",
        "mapa.shared::cluster.u32 %r6, %r1, %r5; atom.shared::cluster.add.u32 %r0, [%r6], 0;",
        "mapa.shared::cluster.u32 %r6, %r1, %r3; ld.shared.u32 %r7, [%r6]; xor.b32 %r8, %r3, 1; "
        "mapa.shared::cluster.u32 %r6, %r1, %r8; ld.relaxed.cluster.shared::cluster.u32 %r0, [%r6];"}) {
    SCOPED_TRACE(access);
    const Words output = run(swap_words(access, kClusterSync), {}, 256);
    for (unsigned i = 0; i < 256; ++i) ASSERT_EQ(output[i], (i / 64 % 2 == 0 ? 1000u : 0u) + i % 64);
  }
}

TEST(Cluster, WithoutItsBarrierTheOtherBlocksDataIsMissing) {
  EXPECT_EQ(
      run(swap_words("mapa.shared::cluster.u32 %r6, %r1, %r5; ld.shared::cluster.u32 %r0, [%r6];", ""), {}, 256)[0],
      0xffffffff);
}

TEST(Cluster, StoresAndReductionsReachTheOtherBlock) {
  const Words output = run({.body = R"(
    mov.u32 %r1, total; st.shared.u32 [%r1], 0;)" +
                                    kClusterSync +
                                    R"(
    mov.u32 %r9, 0; mapa.shared::cluster.u32 %r2, %r1, %r9;
    red.relaxed.cluster.shared::cluster.add.u32 [%r2], 1;
    setp.eq.u32 %p0, %t, 0; mov.u32 %r3, %cluster_ctarank; setp.eq.and.u32 %p1, %r3, 1, %p0;
    mov.u32 %r10, flag; mapa.shared::cluster.u32 %r4, %r10, %r9; @%p1 st.shared::cluster.u32 [%r4], 77;)" +
                                    kClusterSync + R"(
    ld.shared.u32 %r5, [%r1]; ld.shared.u32 %r6, [flag]; setp.eq.and.u32 %p1, %r3, 0, %p0;
    @%p1 st.global.v2.u32 [%out], {%r5, %r6};)",
                            .declarations = ".shared .align 4 .u32 total;\n.shared .align 4 .u32 flag;",
                            .blocks = 2,
                            .directives = kPair},
                           {}, 2);
  EXPECT_EQ(output, (Words{64, 77}));
}

TEST(Cluster, RanksAndSpacesOfAddresses) {
  const Words output = run({.body = R"(
    mov.u32 %r1, buffer; mov.u32 %r9, 1; mapa.shared::cluster.u32 %r2, %r1, %r9;
    getctarank.shared::cluster.u32 %r3, %r1; getctarank.shared::cluster.u32 %r4, %r2;
    cvt.u64.u32 %d0, %r2; cvta.shared::cluster.u64 %d0, %d0; getctarank.u64 %r5, %d0;
    isspacep.shared::cta %p0, %d0; isspacep.shared::cluster %p1, %d0;
    selp.u32 %r6, 1, 0, %p0; selp.u32 %r7, 1, 0, %p1;
    mov.u32 %r31, %ctaid.x; mad.wide.u32 %out, %r31, 20, %out;
    st.global.u32 [%out], %r3; st.global.u32 [%out+4], %r4; st.global.u32 [%out+8], %r5;
    st.global.u32 [%out+12], %r6; st.global.u32 [%out+16], %r7;)",
                            .declarations = ".shared .align 4 .b8 buffer[256];",
                            .blocks = 2,
                            .directives = kPair},
                           {}, 10);
  EXPECT_EQ(output, (Words{0, 1, 1, 0, 1, 1, 1, 1, 1, 1}));
}

TEST(Cluster, WrongAddressesAreErrorsThatSayWhy) {
  const auto failure = [](const std::string& body) {
    return failure_of(
        {.body = body, .declarations = ".shared .align 4 .b8 buffer[256];", .blocks = 2, .directives = kPair}, {}, 1);
  };
  const std::string kOther = "mov.u32 %r1, buffer; mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; ";
  EXPECT_THAT(failure(kOther + "mov.u32 %r2, 2; mapa.shared::cluster.u32 %r3, %r1, %r2;"),
              HasSubstr("a cluster of 2 blocks has no rank 2"));
  EXPECT_THAT(failure(kOther + "mapa.shared::cluster.u32 %r3, %r1, %r2; ld.shared.u32 %r0, [%r3];"),
              HasSubstr("and not in .shared::cta"));
  EXPECT_THAT(failure(kOther + "mapa.shared::cluster.u32 %r3, %r1, %r2; ld.shared::cluster.u32 %r0, [%r3+256];"),
              HasSubstr("beyond shared memory"));
  EXPECT_THAT(failure(kOther + "setp.eq.u32 %p0, %r2, 1; @%p0 ret; mapa.shared::cluster.u32 %r3, %r1, %r2; "
                               "ld.shared::cluster.u32 %r0, [%r3];"),
              HasSubstr("is in block rank 0, which has ended"));
}

TEST(ClusterBarrier, WaitsForAllLanesThatHaveNotEnded) {
  const Words output = run({.body = "setp.lt.u32 %p0, %t, 7; @%p0 ret; barrier.cluster.arrive; barrier.cluster.wait; "
                                    "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned; " +
                                    kOwnWord + "st.global.u32 [%out], 5;",
                            .threads = 64,
                            .blocks = 2,
                            .directives = kPair},
                           {}, 128);
  EXPECT_EQ(output[0], 0xcdcdcdcd);
  EXPECT_EQ(output[7], 5u);
  EXPECT_EQ(output[127], 5u);
}

TEST(ClusterBarrier, MisuseIsAnError) {
  const auto failure = [](const std::string& body) {
    return failure_of({.body = body, .blocks = 2, .directives = kPair});
  };
  EXPECT_THAT(failure("barrier.cluster.wait;"), HasSubstr("without having arrived"));
  EXPECT_THAT(failure("barrier.cluster.arrive; barrier.cluster.arrive;"), HasSubstr("again before it has waited"));
}

TEST(ClusterBarrier, ADeadlockNamesTheBlocks) {
  const std::string failure = failure_of(
      {.body = "mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %p0, %r0, 0; @%p0 bra $wait; bar.sync 0, 64; bra.uni $end; "
               "$wait: barrier.cluster.arrive; barrier.cluster.wait; $end:",
       .blocks = 2,
       .directives = kPair});
  EXPECT_THAT(failure, HasSubstr("deadlock: warp 0 of block rank 0 at barrier.cluster.wait"));
  EXPECT_THAT(failure, HasSubstr("waiting for the cluster's barrier"));
  EXPECT_THAT(failure, HasSubstr("warp 0 of block rank 1 at bar.sync"));
  EXPECT_THAT(failure, HasSubstr("waiting for barrier 0, where 32 of 64 threads have arrived"));
}

}  // namespace
}  // namespace cubit::tests
