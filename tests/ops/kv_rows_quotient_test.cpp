// Tests of the divisions of kv_append and kv_gather: integers by a multiplication, and floats by a reciprocal.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "check/random.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "templates/kernels/attention/kv_append_arguments.h"

namespace cubit::ops {
namespace {

std::uint32_t quotient(std::uint32_t dividend, DivideBy by) {
  return static_cast<std::uint32_t>(std::uint64_t{dividend} * by.multiplier >> by.shift);
}

TEST(KvRowsDivision, IsExactForEveryDividendBelow2To31) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  check::Random random(5);
  for (int i = 0; i < 200000; ++i) {
    const std::int64_t divisor =
        i < 5000 ? i + 1 : 1 + static_cast<std::int64_t>(random.bits() >> (33 + i % 31)) % kMost;
    const DivideBy by = divide_by(divisor);
    EXPECT_EQ(by.divisor, divisor);
    const std::int64_t multiple = kMost / divisor * divisor;
    for (const std::int64_t dividend : {std::int64_t{0}, divisor - 1, divisor, multiple, multiple - 1, kMost,
                                        static_cast<std::int64_t>(random.bits() >> 33)}) {
      ASSERT_EQ(quotient(static_cast<std::uint32_t>(dividend), by), dividend / divisor) << dividend << " / " << divisor;
    }
  }
}

/// The quotient as templates/core/reciprocal.cuh computes it, by a reciprocal.
float by_reciprocal(float dividend, float divisor) {
  const float nearest = 1.f / divisor;
  const float rest = std::fma(-divisor, nearest, 1.f) * nearest;
  return std::fma(dividend, nearest, dividend * rest);
}

// Before the last rounding both quotients differ from the true quotient by at most a relative 2^-46. They can give
// different numbers of steps only if the true quotient is that close to the boundary of the floats that round to a
// half. This boundary is the middle M · 2^e between a half and the neighbouring float, with an odd M of 25 bits. For a
// 24-bit dividend T and divisor D this means T · 2^s = M · D + j with a small j. D alone determines the solutions, and
// the test tries all of them. A j beyond 8 is too far from the boundary.
TEST(KvRowsQuotient, ByReciprocalIsTheRoundedQuotientNearEveryHalf) {
  constexpr std::uint64_t kFirst = 1 << 23;  // the smallest number of 24 bits
  int tried = 0;
  // Nibbles have up to 15 steps, signed bytes up to 127. The middles of fp8 numbers are fewer bits times a power of
  // two.
  for (int steps = 0; steps < 128; ++steps) {
    std::uint64_t half = 2 * steps + 1;
    while (half < kFirst) half *= 2;
    for (const std::uint64_t middle : {2 * half + 1, half == kFirst ? 4 * half - 1 : 2 * half - 1}) {
      std::uint64_t inverse = middle;  // modulo 2^64, by Newton's iteration
      for (int i = 0; i < 6; ++i) inverse *= 2 - middle * inverse;
      for (int s = 23; s <= 26; ++s) {
        const std::uint64_t mask = (std::uint64_t{1} << s) - 1;
        for (std::int64_t j = -16; j <= 16; ++j) {
          for (std::uint64_t divisor = -static_cast<std::uint64_t>(j) * inverse & mask; divisor < 2 * kFirst;
               divisor += mask + 1) {
            const std::uint64_t dividend = (middle * divisor + j) >> s;
            if (divisor < kFirst || dividend < kFirst || dividend >= 2 * kFirst) continue;
            if (divisor == 2 * kFirst - 1) continue;  // divides_by_reciprocal refuses this divisor
            const auto d = static_cast<float>(divisor);
            const double ratio = (steps + 0.5) * static_cast<double>(divisor) / static_cast<double>(dividend);
            const float t = std::ldexp(static_cast<float>(dividend), std::ilogb(ratio * 1.01));
            ++tried;
            ASSERT_EQ(std::nearbyint(by_reciprocal(t, d)), std::nearbyint(t / d)) << t << " / " << d;
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 2500);
  const float all_ones = 2 * kFirst - 1;
  EXPECT_NE(std::nearbyint(by_reciprocal(kFirst, all_ones)), std::nearbyint(kFirst / all_ones))
      << "the one that is left out";
}

TEST(KvRowsQuotient, ByReciprocalOfTheLargestValueIsTheRoundedQuotientOfEveryFloat) {
  for (int fraction = 1 << 23; fraction < 1 << 24; ++fraction) {
    const auto width = static_cast<float>(fraction);
    for (const float largest : {15.f, 127.f, 448.f, 57344.f})
      ASSERT_EQ(by_reciprocal(width, largest), width / largest) << width << " / " << largest;
  }
}

}  // namespace
}  // namespace cubit::ops
