// Tests of loads, stores, asynchronous copies and atomics of every width and space, and of the reports of errors with
// their places.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

Words counted(std::size_t count) {
  Words words(count);
  std::iota(words.begin(), words.end(), 0x01020304u);
  return words;
}

TEST(Memory, EveryWidthMovesItsBytesAndNoOthers) {
  for (const auto& [body, words] :
       {std::pair{"mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 4, %out; ld.global.nc.u32 %r0, [%in]; "
                  "st.global.u32 [%out], %r0;",
                  32u},
        std::pair{"mad.wide.u32 %in, %t, 16, %in; mad.wide.u32 %out, %t, 16, %out; ld.global.cs.v4.u32 "
                  "{%r0,%r1,%r2,%r3}, [%in]; st.global.v4.u32 [%out], {%r0,%r1,%r2,%r3};",
                  128u},
        std::pair{"mad.wide.u32 %in, %t, 8, %in; mad.wide.u32 %out, %t, 8, %out; ld.volatile.v2.f32 {%f0,%f1}, "
                  "[%in]; st.v2.f32 [%out], {%f0,%f1};",
                  64u},
        std::pair{"mad.wide.u32 %in, %t, 8, %in; mad.wide.u32 %out, %t, 8, %out; ld.global.u64 %d0, [%in]; "
                  "st.global.u64 [%out], %d0;",
                  64u},
        std::pair{"mad.wide.u32 %in, %t, 2, %in; mad.wide.u32 %out, %t, 2, %out; ld.global.u16 %s0, [%in]; "
                  "st.global.u16 [%out], %s0;",
                  16u},
        std::pair{"cvt.u64.u32 %d0, %t; add.s64 %in, %in, %d0; add.s64 %out, %out, %d0; ld.global.u8 %s0, [%in]; "
                  "st.global.u8 [%out], %s0;",
                  8u}}) {
    SCOPED_TRACE(body);
    const Words input = counted(words);
    Words expected = input;
    expected.push_back(0xcdcdcdcd);  // one element more than is written
    EXPECT_EQ(run({.body = body}, input, words + 1), expected);
  }
}

TEST(Memory, NarrowSignedLoadsExtend) {
  EXPECT_EQ(run({.body = "ld.global.s8 %r0, [%in]; ld.global.u8 %r1, [%in]; st.global.v2.u32 [%out], {%r0, %r1};"},
                {0x80}, 2),
            (Words{0xffffff80, 0x80}));
}

TEST(Memory, AGuardedStoreIsDoneByItsLanesOnly) {
  const Words output = run({.body = "mad.wide.u32 %out, %t, 4, %out; and.b32 %r0, %t, 1; setp.eq.u32 %p0, %r0, 0; "
                                    "@!%p0 st.global.u32 [%out], %t;"},
                           {}, kLanes);
  for (unsigned i = 0; i < kLanes; ++i) EXPECT_EQ(output[i], i % 2 == 1 ? i : 0xcdcdcdcd);
}

TEST(Memory, SharedMemoryByItsOwnAndByGenericAddresses) {
  const Words output = run({.body = R"(
    mov.u32 %r0, buffer; shl.b32 %r1, %t, 2; add.s32 %r0, %r0, %r1;
    st.shared.u32 [%r0+4], %t;
    cvt.u64.u32 %d0, %r0; cvta.shared.u64 %d0, %d0; ld.u32 %r2, [%d0+4];
    mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], %r2;)",
                            .declarations = ".shared .align 4 .b8 buffer[132];"},
                           {}, kLanes);
  for (unsigned i = 0; i < kLanes; ++i) EXPECT_EQ(output[i], i);
}

TEST(Memory, WhatNobodyWroteInSharedMemoryIsNan) {
  EXPECT_EQ(run({.body = "ld.shared.u32 %r0, [buffer]; st.global.u32 [%out], %r0;",
                 .declarations = ".extern .shared .align 16 .b8 buffer[];",
                 .dynamic_shared = 16},
                {}, 1),
            Words{0xffffffff});
}

TEST(Memory, BeyondSharedMemoryIsAnErrorThatSaysWhere) {
  const std::string failure =
      failure_of({.body = "mov.u32 %r0, buffer; shl.b32 %r1, %t, 2; add.s32 %r0, %r0, %r1;\n st.shared.u32 [%r0], %t;",
                  .declarations = ".extern .shared .align 16 .b8 buffer[];",
                  .dynamic_shared = 64});
  EXPECT_THAT(failure, HasSubstr("beyond shared memory"));
  EXPECT_THAT(failure, HasSubstr("st.shared.u32"));
  EXPECT_THAT(failure, HasSubstr("lane 16"));
  EXPECT_THAT(failure, HasSubstr("kernel kernel, block (0, 0, 0)"));
}

TEST(Memory, AnAddressThatARegisterCannotHoldIsRefused) {
  const std::string failure =
      failure_of({.body = "mov.u32 %r0, numbers;", .declarations = ".const .align 4 .b8 numbers[16];"});
  EXPECT_NE(failure.find("the address of numbers does not fit in 32 bits"), std::string::npos) << failure;
}

TEST(Memory, AMisalignedAccessIsAnError) {
  EXPECT_THAT(failure_of({.body = "add.s64 %in, %in, 2; ld.global.u32 %r0, [%in];"}, {0, 0}),
              HasSubstr("is not a multiple of 4"));
  EXPECT_THAT(failure_of({.body = "add.s64 %in, %in, 8; ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%in];"}, {0, 0}),
              HasSubstr("is not a multiple of 16"));
}

constexpr const char* kCopy = R"(
  mov.u32 %r0, buffer; shl.b32 %r1, %t, 4; add.s32 %r0, %r0, %r1;
  mad.wide.u32 %in, %t, 16, %in; mad.wide.u32 %out, %t, 16, %out;
  cp.async.cg.shared.global [%r0], [%in], 16{size};
  cp.async.commit_group;
  {wait}
  ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r0];
  st.global.v4.u32 [%out], {%r4,%r5,%r6,%r7};)";

Case copy_case(std::string size, std::string wait) {
  std::string body = kCopy;
  body.replace(body.find("{size}"), 6, size);
  body.replace(body.find("{wait}"), 6, wait);
  return {.body = body, .declarations = ".extern .shared .align 16 .b8 buffer[];", .dynamic_shared = 512};
}

TEST(AsynchronousCopies, ArriveWhenTheirGroupIsWaitedFor) {
  const Words input = counted(128);
  EXPECT_EQ(run(copy_case("", "cp.async.wait_group 0;"), input, 128), input);
  EXPECT_EQ(run(copy_case("", "cp.async.wait_all;"), input, 128), input);
}

/// A missing wait, or a wait that leaves the group pending, shows as data that has not arrived.
TEST(AsynchronousCopies, DoNotArriveBefore) {
  const Words nothing(128, 0xffffffff);
  EXPECT_EQ(run(copy_case("", ""), counted(128), 128), nothing);
  EXPECT_EQ(run(copy_case("", "cp.async.wait_group 1;"), counted(128), 128), nothing);
}

TEST(AsynchronousCopies, ReadWhatTheySayAndFillWithZeros) {
  Words expected = counted(128);
  for (std::size_t i = 0; i < 128; ++i) expected[i] = i % 4 < 2 ? expected[i] : 0;
  EXPECT_EQ(run(copy_case(", 8", "cp.async.wait_group 0;"), counted(128), 128), expected);
  EXPECT_EQ(run(copy_case(", 0", "cp.async.wait_group 0;"), counted(128), 128), Words(128, 0));
}

TEST(Atomics, LanesAndBlocksAllCount) {
  const Case sum{.body =
                     "atom.acq_rel.gpu.global.add.u32 %r0, [%in], 2; mov.u32 %r1, %ctaid.x; bar.sync 0; "
                     "ld.volatile.global.u32 %r2, [%in]; setp.eq.u32 %p0, %r0, 16382; @%p0 st.global.u32 [%out], %r2;",
                 .threads = 128,
                 .blocks = 64};
  EXPECT_EQ(run(sum, {0}, 1), Words{2 * 64 * 128});
}

TEST(Atomics, EachOperationGivesTheOldValue) {
  struct Row {
    const char* text;
    std::uint32_t expected;
  };
  for (const Row& row :
       {Row{"atom.global.min.s32 %r0, [%in], -5;", 0xfffffffb}, Row{"atom.global.max.u32 %r0, [%in], 9;", 9},
        Row{"atom.global.and.b32 %r0, [%in], 6;", 6}, Row{"atom.global.or.b32 %r0, [%in], 8;", 15},
        Row{"atom.global.xor.b32 %r0, [%in], 1;", 6}, Row{"atom.global.exch.b32 %r0, [%in], 3;", 3},
        Row{"atom.global.cas.b32 %r0, [%in], 7, 4;", 4}, Row{"atom.global.cas.b32 %r0, [%in], 6, 4;", 7},
        Row{"atom.global.inc.u32 %r0, [%in], 7;", 0}, Row{"atom.global.dec.u32 %r0, [%in], 5;", 5}}) {
    SCOPED_TRACE(row.text);
    const std::string body = std::string("setp.eq.u32 %p0, %t, 0;\n @%p0 ") + row.text +
                             "\n ld.global.u32 %r1, [%in];\n @%p0 st.global.v2.u32 [%out], {%r0, %r1};";
    EXPECT_EQ(run({.body = body}, {7}, 2), (Words{7, row.expected}));
  }
}

TEST(Atomics, FloatsAreAddedInSharedMemory) {
  const Words output = run(
      {.body =
           "mov.f32 %f0, 0f3F800000; setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [total], 0; bar.warp.sync -1; "
           "red.shared.add.f32 [total], %f0; bar.warp.sync -1; ld.shared.u32 %r0, [total]; st.global.u32 [%out], %r0;",
       .declarations = ".shared .align 4 .f32 total;"},
      {}, 1);
  EXPECT_EQ(float_of(output[0]), 32.f);
}

}  // namespace
}  // namespace cubit::tests
