// Tests the model of tensor cores where architectures differ: the number of kept bits, and the number of products
// summed at once. conformance_test proves that sm_90 agrees with an H200 in every bit.
#include "runtime/cpu/arithmetic/tensor_core.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using runtime::cpu::Format;
using runtime::cpu::Rounding;

/// Row 0 of A, column 0 of B, one C, and the result.
struct Sum {
  Format factor = Format::f16;
  Format result = Format::f32;
  int k = 16;
  double c = 0;
  std::array<double, 64> a = {};
  std::array<double, 64> b = {};

  std::uint32_t on(int sm) const { return sum(runtime::cpu::tensor_core(sm, factor)); }
  std::uint32_t of_warpgroup() const { return sum(runtime::cpu::warpgroup_tensor_core(factor)); }

  std::uint32_t sum(const runtime::cpu::TensorCore& core) const {
    std::array<std::uint32_t, 16 * 64> a_bits{};
    std::array<std::uint32_t, 8 * 64> b_bits{};
    std::array<std::uint32_t, 16 * 8> c_bits{};
    const auto bits = [](Format format, double value) {
      return static_cast<std::uint32_t>(encode(format, value, Rounding::nearest));
    };
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
      a_bits[i] = bits(factor, a[i]);
      b_bits[i] = bits(factor, b[i]);
    }
    c_bits[0] = bits(result, c);
    multiply_add(core, {factor, factor, result, 16, k}, a_bits.data(), b_bits.data(), c_bits.data());
    return c_bits[0];
  }
};

Sum products(double each, int first, int count) {
  Sum sum;
  for (int i = first; i < first + count; ++i) {
    sum.a[static_cast<std::size_t>(i)] = each;
    sum.b[static_cast<std::size_t>(i)] = 1;
  }
  return sum;
}

TEST(TensorCore, KeepsABitMoreFromHopperOn) {
  Sum sum = products(0.5, 0, 4);
  sum.c = 0x1p24;
  for (const int sm : {75, 80, 86, 89}) EXPECT_EQ(float_of(sum.on(sm)), 0x1p24F) << sm;
  for (const int sm : {90, 100, 120}) EXPECT_EQ(float_of(sum.on(sm)), 0x1p24F + 2) << sm;
}

TEST(TensorCore, SumsTheHalvesOfKOneAfterTheOtherBeforeHopper) {
  Sum sum = products(0.5, 0, 4);
  sum.a[8] = sum.b[8] = 0x1p12;  // comes when all other terms are 2 already
  EXPECT_EQ(float_of(sum.on(80)), 0x1p24F + 2);
  Sum late = products(0.5, 8, 4);
  late.a[8] = late.b[8] = 0x1p12;
  EXPECT_EQ(float_of(late.on(80)), 0x1p24F);
  EXPECT_EQ(float_of(late.on(90)), 0x1p24F);  // an additional 1.5 is lost in an f32
}

TEST(TensorCore, CutsTowardsZero) {
  Sum sum = products(-0x1p-13, 0, 1);
  sum.b[0] = 0x1p-12;
  sum.c = 1;
  EXPECT_EQ(float_of(sum.on(90)), 1 - 0x1p-24F);
  sum.b[0] = 0x1p-13;
  EXPECT_EQ(float_of(sum.on(90)), 1);
}

TEST(TensorCore, ZerosTakeNoPartAndASumOfZeroIsPositive) {
  Sum sum = products(1, 0, 1);
  sum.factor = Format::bf16;
  sum.b[1] = 0x1p100;
  sum.c = 0x1p-23;
  EXPECT_EQ(float_of(sum.on(90)), 1 + 0x1p-23F);
  Sum zero;
  zero.c = -0.0;
  EXPECT_EQ(zero.on(90), 0u);
  zero.result = Format::f16;
  EXPECT_EQ(zero.on(90), 0u);
}

TEST(TensorCore, GivesOneNanAndInfinities) {
  Sum sum = products(1, 0, 16);
  sum.a[3] = HUGE_VAL;
  EXPECT_EQ(sum.on(90), 0x7f800000u);
  EXPECT_EQ(sum.on(80), 0x7f800000u);
  sum.c = -HUGE_VAL;
  EXPECT_EQ(sum.on(90), 0x7fffffffu);
  sum.result = Format::f16;
  EXPECT_EQ(sum.on(80), 0x7fffu);
}

TEST(TensorCore, RoundsHalvesToNearestEven) {
  Sum sum = products(1, 0, 1);
  sum.result = Format::f16;
  sum.c = 0x1p11;  // spacing 2: a tie
  EXPECT_EQ(sum.on(90), 0x6800u);
  sum.c = 0x1p11 + 2;
  EXPECT_EQ(sum.on(90), 0x6802u);
}

TEST(TensorCore, WgmmaKeepsThirteenBitsOfAll32Products) {
  Sum sum = products(0x1p-7, 0, 1);
  sum.factor = Format::e4m3;
  sum.k = 32;
  sum.b[0] = 0x1p-6;
  sum.c = 1;
  EXPECT_EQ(float_of(sum.of_warpgroup()), 1 + 0x1p-13F);
  sum.b[0] = 0x1p-7;
  EXPECT_EQ(float_of(sum.of_warpgroup()), 1);
  sum.c = 0x1.fffffep0;
  EXPECT_EQ(float_of(sum.of_warpgroup()), 0x1.fff8p0F);
  // Ada sums each half of k by itself, so that the products of the second half are not cut by the first.
  Sum halves = products(0x1p-7, 16, 16);
  halves.factor = Format::e4m3;
  halves.k = 32;
  halves.a[0] = halves.b[0] = 0x1p4;
  halves.a[1] = -0x1p4;
  halves.b[1] = 0x1p4;
  EXPECT_EQ(float_of(halves.on(89)), 16 * 0x1p-7F);
  EXPECT_EQ(float_of(halves.of_warpgroup()), 0);
}

TEST(TensorCore, WgmmaOfSixteenBitsIsThatOfMma) {
  EXPECT_EQ(&runtime::cpu::warpgroup_tensor_core(Format::f16), &runtime::cpu::tensor_core(90, Format::f16));
}

TEST(TensorCore, AdaKeepsThirteenBitsOfEightBitFormats) {
  Sum sum = products(0x1p-7, 0, 1);
  sum.factor = Format::e4m3;
  sum.k = 32;
  sum.b[0] = 0x1p-6;
  sum.c = 1;
  EXPECT_EQ(float_of(sum.on(89)), 1 + 0x1p-13F);
  sum.b[0] = 0x1p-7;
  EXPECT_EQ(float_of(sum.on(89)), 1);
  EXPECT_EQ(float_of(sum.on(90)), 1 + 0x1p-14F);
  EXPECT_EQ(float_of(sum.on(120)), 1 + 0x1p-14F);
}

}  // namespace
}  // namespace cubit::tests
