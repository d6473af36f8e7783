// Correctly rounded quotients of many dividends and one divisor, where only a few bits of them are kept; and what keeps
// these.
#pragma once

#include "core/math.cuh"
#include "core/types.cuh"

namespace cubit {

/// 1 / divisor, correctly rounded, of a divisor from 2^-126 to 2^125: what the compiler makes of a division there,
/// without its branch for the others.
__device__ __forceinline__ float reciprocal_rounded(float divisor) {
  const float near = reciprocal_fast(divisor);
  return __fmaf_rn(near, __fmaf_rn(-divisor, near, 1.f), near);
}

/// x / divisor in two instructions: a product with the divisor's reciprocal, which is kept in two parts. Rounded to 8
/// bits or fewer it is what the rounded quotient is, wherever divides_by_reciprocal(divisor): tests/ops tries every
/// quotient that is near enough to the middle of two numbers of 8 bits for the two to differ. By 15, 127, 448 and 57344
/// it is the rounded quotient of any x.
class Reciprocal {
 public:
  __device__ __forceinline__ explicit Reciprocal(float divisor) : Reciprocal(divisor, reciprocal_rounded(divisor)) {}
  /// `nearest`: 1 / divisor, which somebody has computed.
  __device__ __forceinline__ Reciprocal(float divisor, float nearest)
      : nearest_(nearest), rest_(__fmul_rn(__fmaf_rn(-divisor, nearest_, 1.f), nearest_)) {}
  __device__ __forceinline__ float operator()(float x) const { return __fmaf_rn(x, nearest_, __fmul_rn(x, rest_)); }

 private:
  float nearest_;
  float rest_;
};

/// x / kDivisor, likewise: both parts are constants. In double no step of them is rounded but those that Reciprocal
/// rounds.
template <int kDivisor>
__device__ __forceinline__ float divided_by(float x) {
  constexpr float kNearest = 1.f / kDivisor;
  constexpr float kError = static_cast<float>(1.0 - static_cast<double>(kDivisor) * kNearest);
  constexpr float kRest = kError * kNearest;
  return __fmaf_rn(x, kNearest, __fmul_rn(x, kRest));
}

/// Not where the second part would be subnormal, nor where the fraction is all ones: its reciprocal is the one that
/// ends farthest from a float, and a half times 1 + 2^-24 comes out as a half.
__device__ __forceinline__ bool divides_by_reciprocal(float divisor) {
  return divisor < 0x1p60f && (~__float_as_uint(divisor) & 0x7fffffu) != 0;
}

/// 1.5 · 2^23 leaves no bits for a fraction: a sum with it is rounded to a whole number, ties to even, in its low bits.
inline constexpr float kRounder = 12582912.f;
/// Eight times the bits of kRounder, each 4 bits above the last, as they end up in a word: 0x4b400000 · 0x11111111.
inline constexpr uint32 kRounderNibbles = 0x4b400000u * 0x11111111u;

}  // namespace cubit
