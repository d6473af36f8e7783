// Tests of all forms of copies of tensor boxes, of watching them, and of misuse, which is an error at the copy. PTX
// ISA, "cp.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "prefetch".
#include <gmock/gmock.h>

#include <limits>

#include "base/error.hpp"
#include "tests/runtime_cpu/tensor_copy.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;

/// 4 x 3 rows of 64 bytes. The box has 2 x 2 rows and begins in row (2, 2), so that half of its rows are outside.
Copy small_copy() {
  Copy made;
  made.bytes = 12 * 64;
  made.map = {.element_bytes = 4,
              .rank = 3,
              .sizes = {16, 3, 4},
              .strides = {64, 192},
              .box = {16, 2, 2},
              .swizzle = TensorSwizzle::span64};
  made.allocate();
  for (std::uint64_t i = 0; i < made.bytes; ++i) made.data()[i] = static_cast<std::uint8_t>(i * 7 + 1);
  made.arguments.offset = 384;
  made.arguments.first = {0, 2, 2};
  return made;
}

TEST(TensorCopy, EveryFormOfALoadDoesTheSame) {
  const Copy copy = small_copy();
  const std::string tail = " [%r3], [%d0, {0, 2, %c2}], [bar]";
  for (const std::string& form :
       {"shared::cluster.global.mbarrier::complete_tx::bytes" + tail,
        "shared::cta.global.tile.mbarrier::complete_tx::bytes" + tail,
        "shared::cluster.global.mbarrier::complete_tx::bytes.tile" + tail,
        "shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint" + tail + ", %d5"}) {
    EXPECT_EQ(run_copy(*load_copy(kExpect + "@%p0 cp.async.bulk.tensor.3d." + form + ";\n" + kWait + kDump), copy),
              loaded_buffer(copy))
        << form;
  }
}

TEST(TensorCopy, GoesToEveryBlockOfItsMask) {
  const Copy copy = small_copy();
  const Program program =
      load_copy(kExpect +
                "mov.u32 %r9, %cluster_ctarank; setp.eq.and.u32 %p2, %r9, 1, %p0; mov.u16 %s0, 3;\n"
                "@%p2 cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
                "multicast::cluster.L2::cache_hint [%r3], [%d0, {%c0, %c1, %c2}], [%r5], %s0, %d5;\n" +
                kWait + kDump);
  Bytes expected = loaded_buffer(copy);
  expected.insert(expected.end(), expected.begin(), expected.begin() + kBuffer);
  EXPECT_EQ(run_copy(*program, copy, 2), expected);
}

TEST(TensorCopy, AStoreIsReadWhenItsGroupIsWaitedFor) {
  const Copy copy = small_copy();
  const Bytes expected = stored_tensor(copy);
  run_copy(*load_copy(store_of(3) + "@%p0 cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; bar.sync 0;\n"
                                    "@%p0 st.shared.u32 [%r3], 77; cp.async.bulk.wait_group 0;\n"),
           copy);
  EXPECT_EQ(copy.tensor(), expected);
}

TEST(TensorCopy, PrefetchesOnlyCheck) {
  const Copy copy = small_copy();
  const Program program = load_copy(
      "prefetch.tensormap [%d0]; prefetch.param.tensormap [args];\n"
      "cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%d0, {%c0, %c1, %c2}];\n"
      "cp.async.bulk.prefetch.tensor.3d.L2.global.L2::cache_hint [%d0, {%c0, %c1, %c2}], %d5;\n" +
      kDump);
  EXPECT_EQ(run_copy(*program, copy), filled_buffer());
  EXPECT_THAT(failure_of_copy("prefetch.tensormap [%d0+32];", copy),
              HasSubstr("the tensor map at byte 32 of the kernel's parameters is not at a multiple of 128; prefetch"));
  EXPECT_THAT(failure_of_copy("prefetch.tensormap [%d0+128];", copy), HasSubstr("is no tensor map of the CPU device"));
  Copy shorter = copy;
  shorter.bytes -= 64;
  shorter.arguments.first = {0, 0, 2};
  shorter.arguments.first[1] = 1;
  EXPECT_THAT(failure_of_copy("cp.async.bulk.prefetch.tensor.3d.L2.global [%d0, {%c0, %c1, %c2}];", shorter),
              HasSubstr("are in no allocation"));
}

// ---- watched copies and refused copies ----

TEST(TensorCopy, BytesAreThoseOfTheWholeBox) {
  Copy copy = small_copy();
  copy.arguments.bytes = 64;  // the bytes inside the tensor
  EXPECT_THAT(failure_of_copy(kExpect + load_of(3) + kWait, copy),
              HasSubstr("deadlock: warp 0 at mbarrier.try_wait.parity.shared.b64"));
}

TEST(TensorCopy, IsUnderWayUntilItsMbarrierIsWaitedFor) {
  const Copy copy = small_copy();
  EXPECT_THAT(failure_of_copy(kExpect + load_of(3) + "ld.shared.u32 %r8, [%r3+192];" + kWait, copy),
              HasSubstr("is used while an asynchronous copy to it is under way"));
  EXPECT_THAT(failure_of_copy(store_of(3) + "@%p0 st.shared.u32 [%r3+192], 1;", copy),
              HasSubstr("is written while a bulk copy from it is under way"));
  EXPECT_THAT(failure_of_copy(kExpect + load_of(3), copy),
              HasSubstr("the cluster ends before any warp has waited for these bytes; cp.async.bulk.tensor.3d"));
  EXPECT_THAT(failure_of_copy(store_of(3), copy), HasSubstr("the thread ends before this copy has read its shared"));
}

TEST(TensorCopy, WritesBeforeItNeedAFenceBetweenTheProxies) {
  EXPECT_THAT(failure_of_copy("@%p0 st.shared.u32 [%r3+64], 1;" + kExpect + load_of(3) + kWait, small_copy()),
              HasSubstr("without a fence.proxy.async"));
}

TEST(TensorCopy, TouchesItsAllocationOnlyInsideTheTensor) {
  Copy copy = small_copy();
  copy.bytes -= 64;  // the last row is not in the kernel's memory
  copy.arguments.first = {0, 2, 2};
  EXPECT_THAT(failure_of_copy(kExpect + load_of(3) + kWait, copy), HasSubstr("64 bytes at"));
  EXPECT_THAT(failure_of_copy(store_of(3), copy), HasSubstr("are in no allocation of this device"));
  copy.arguments.first = {0, 2, 3};
  EXPECT_THAT(failure_of_copy(kExpect + load_of(3) + kWait, copy), HasSubstr("are in no allocation of this device"));
  copy.arguments.first = {16, 2, 2};  // outside all rows: zeros
  EXPECT_EQ(failure_of_copy(kExpect + load_of(3) + kWait, copy), "");
}

TEST(TensorCopy, NoBoxIsWhollyBesideItsTensorInAnOuterDimension) {
  Copy copy = small_copy();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::array<std::int32_t, 5>& first :
       {std::array<std::int32_t, 5>{0, 3, 2}, {0, 0, 4}, {0, 0, -2}, {0, 0, kMost}, {0, 0, -kMost - 1}}) {
    copy.arguments.first = first;
    const int dimension = first[1] == 0 ? 2 : 1;
    const std::string report = "a box that begins at " + std::to_string(first[dimension]) + " of dimension " +
                               std::to_string(dimension) + " is wholly outside of the tensor map of 16 x 3 x 4";
    EXPECT_THAT(failure_of_copy(kExpect + load_of(3) + kWait, copy), HasSubstr(report));
    EXPECT_THAT(failure_of_copy(store_of(3), copy), HasSubstr(report));
    // Without the checker the result is as on a GPU: zeros.
    EXPECT_EQ(run_copy(*load_copy(kExpect + load_of(3) + kWait + kDump), copy, 1, false), loaded_buffer(copy));
  }
  for (const std::int32_t first : {-1, 3}) {  // half inside
    copy.arguments.first = {0, 0, first};
    EXPECT_EQ(run_copy(*load_copy(kExpect + load_of(3) + kWait + kDump), copy), loaded_buffer(copy));
  }
}

TEST(TensorCopy, MisuseIsAnErrorAtTheCopy) {
  const Copy good = small_copy();
  const auto failure = [&](const std::string& operands, const Copy& copy) {
    return failure_of_copy(
        "@%p0 cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes " + operands + ";\n", copy);
  };
  EXPECT_THAT(failure("[%r3+64], [%d0, {0, 0, 0}], [bar]", good),
              HasSubstr("of a tensor's box in shared memory is not a multiple of 128; cp.async.bulk.tensor.3d"));
  EXPECT_THAT(failure("[%r0+32768], [%d0, {0, 0, 0}], [bar]", good), HasSubstr("are beyond shared memory"));
  EXPECT_THAT(failure("[%r3], [%d0, {0, 0, 0}], [bar+4]", good), HasSubstr("is not a multiple of 8"));
  EXPECT_THAT(failure("[%r3], [%d0+16, {0, 0, 0}], [bar]", good),
              HasSubstr("the tensor map at byte 16 of the kernel's parameters is not at a multiple of 128"));
  EXPECT_THAT(failure("[%r3], [%d0+128, {0, 0, 0}], [bar]", good),
              HasSubstr("at byte 128 of the kernel's parameters is no tensor map of the CPU device"));
  EXPECT_THAT(failure("[%r3], [%d0+256, {0, 0, 0}], [bar]", good), HasSubstr("beyond the kernel's parameters"));
  EXPECT_THAT(failure("[%r3], [%d7, {0, 0, 0}], [bar]", good), HasSubstr("are in no allocation"));
  EXPECT_THAT(failure_of_copy("cvt.u64.u32 %d3, %r0; cvta.shared.u64 %d3, %d3;\n"
                              "@%p0 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d3, {0}], [%r3];",
                              good),
              HasSubstr("a tensor map lies in parameters, constant or global memory, and not in shared memory"));
  EXPECT_THAT(failure_of_copy(kExpect + load_of(2), good),
              HasSubstr("a copy of 2 dimensions uses a tensor map of 16 x 3 x 4 elements of 4 bytes"));
  Copy damaged = good;
  damaged.map.rank = 7;
  damaged.arguments.map = runtime::cpu::encode(damaged.map);
  EXPECT_THAT(failure("[%r3], [%d0, {0, 0, 0}], [bar]", damaged),
              HasSubstr("the tensor map at byte 0 of the kernel's parameters is damaged: a tensor has 1 to 5"));
}

TEST(TensorCopy, WhatIsNotExecutedIsRefusedWhenTheKernelIsLoaded) {
  const auto refusal = [](const std::string& instruction) {
    try {
      load_copy(instruction + ";\n");
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::unsupported);
      return failure.given() + ": " + failure.rule();
    }
    return std::string();
  };
  const std::string load = "cp.async.bulk.tensor.3d.shared::cluster.global";
  const std::string tells = "mbarrier::complete_tx::bytes";
  EXPECT_THAT(refusal(load + ".im2col." + tells + " [%r3], [%d0, {%c0, %c1, %c2}], [bar], {%s0}"),
              HasSubstr("copies no tensor with .im2col"));
  EXPECT_THAT(refusal(load + "." + tells + ".cta_group::2 [%r3], [%d0, {%c0, %c1, %c2}], [bar]"),
              HasSubstr("copies no tensor with .cta_group::2"));
  EXPECT_THAT(refusal("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d0, {%c0}], [%r3]"),
              HasSubstr("copies no tensor with .reduce"));
  EXPECT_THAT(refusal(load + "." + tells + " [%r3], [%d0, {%c0, %c1}], [bar]"),
              HasSubstr("a tensor map with one coordinate per dimension is missing"));
  EXPECT_THAT(refusal(load + "." + tells + " [%r3], [%d0], [bar]"),
              HasSubstr("a tensor map with one coordinate per dimension is missing"));
  EXPECT_THAT(refusal("ld.global.u32 %r8, [%d0, {%c0}]"), HasSubstr("only copies of tensors take coordinates"));
}

}  // namespace
}  // namespace cubit::tests
