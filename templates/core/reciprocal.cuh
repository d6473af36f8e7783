// Correctly rounded quotients of many dividends by one divisor, for results that keep only a few bits, and the
// constants that round a result to an integer.
#pragma once

#include "core/math.cuh"
#include "core/types.cuh"

namespace cubit {

/// 1 / divisor, correctly rounded, for a divisor from 2^-126 to 2^125. The compiler emits the same instructions for a
/// division in this range, but adds a branch for divisors outside the range.
__device__ __forceinline__ float reciprocal_rounded(float divisor) {
  const float near = reciprocal_fast(divisor);
  return __fmaf_rn(near, __fmaf_rn(-divisor, near, 1.f), near);
}

/// Computes x / divisor in two instructions: a product with the divisor's reciprocal, which is kept as a sum of two
/// floats. After rounding to 8 bits or fewer, the result equals the rounded quotient for every divisor that passes
/// divides_by_reciprocal(). tests/ops checks every quotient that is close enough to the middle of two 8-bit numbers for
/// the results to differ. For the divisors 15, 127, 448 and 57344 the result is the correctly rounded quotient of any
/// x.
class Reciprocal {
 public:
  __device__ __forceinline__ explicit Reciprocal(float divisor) : Reciprocal(divisor, reciprocal_rounded(divisor)) {}
  /// `nearest` is 1 / divisor, already computed by the caller.
  __device__ __forceinline__ Reciprocal(float divisor, float nearest)
      : nearest_(nearest), rest_(__fmul_rn(__fmaf_rn(-divisor, nearest_, 1.f), nearest_)) {}
  __device__ __forceinline__ float operator()(float x) const { return __fmaf_rn(x, nearest_, __fmul_rn(x, rest_)); }

 private:
  float nearest_;
  float rest_;
};

/// x / kDivisor with the method of Reciprocal; both parts of the reciprocal are constants. The parts are computed in
/// double precision, where no step is rounded except the steps that Reciprocal rounds too.
template <int kDivisor>
__device__ __forceinline__ float divided_by(float x) {
  constexpr float kNearest = 1.f / kDivisor;
  constexpr float kError = static_cast<float>(1.0 - static_cast<double>(kDivisor) * kNearest);
  constexpr float kRest = kError * kNearest;
  return __fmaf_rn(x, kNearest, __fmul_rn(x, kRest));
}

/// Returns whether Reciprocal may be used for a positive divisor. Two cases are excluded. First, the second part of the
/// reciprocal must not be subnormal. Second, the divisor's fraction bits must not be all ones: the reciprocal of such a
/// divisor lies farthest from a float, so a quotient just above a half, 0.5 · (1 + 2^-24), would come out as exactly a
/// half and be rounded down instead of up.
__device__ __forceinline__ bool divides_by_reciprocal(float divisor) {
  return divisor < 0x1p60f && (~__float_as_uint(divisor) & 0x7fffffu) != 0;
}

/// 1.5 · 2^23 leaves no bits for a fraction. Adding kRounder to a value rounds the value to an integer, ties to even,
/// and leaves the integer in the low bits of the sum.
inline constexpr float kRounder = 12582912.f;
/// Packing eight rounded values into nibbles: word = 16 · word + bits of (value + kRounder), for each value in turn.
/// The bits of kRounder then appear eight times in the word, each time shifted 4 bits further. Subtracting this
/// constant, 0x4b400000 · 0x11111111, leaves the nibbles.
inline constexpr uint32 kRounderNibbles = 0x4b400000u * 0x11111111u;

}  // namespace cubit
