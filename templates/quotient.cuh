// Correctly rounded quotients of many dividends and one divisor, where only a few bits of them are kept.
#pragma once

#include "types.cuh"

namespace cubit {

/// x / divisor in two instructions: a product with the divisor's reciprocal, which is kept in two parts. Rounded to 8 bits or
/// fewer it is what the rounded quotient is, wherever divides_by_reciprocal(divisor): tests/ops tries every quotient that is
/// near enough to the middle of two numbers of 8 bits for the two to differ. By 15, 127, 448 and 57344 it is the rounded
/// quotient of any x.
class Reciprocal {
 public:
  __device__ __forceinline__ explicit Reciprocal(float divisor) : Reciprocal(divisor, 1.f / divisor) {}
  /// `nearest`: 1 / divisor, which somebody has computed.
  __device__ __forceinline__ Reciprocal(float divisor, float nearest)
      : nearest_(nearest), rest_(__fmul_rn(__fmaf_rn(-divisor, nearest_, 1.f), nearest_)) {}
  __device__ __forceinline__ float operator()(float x) const { return __fmaf_rn(x, nearest_, __fmul_rn(x, rest_)); }

 private:
  float nearest_;
  float rest_;
};

/// Not where the second part would be subnormal, nor where the fraction is all ones: its reciprocal is the one that ends
/// farthest from a float, and a half times 1 + 2^-24 comes out as a half.
__device__ __forceinline__ bool divides_by_reciprocal(float divisor) {
  return divisor < 0x1p60f && (__float_as_uint(divisor) & 0x7fffffu) != 0x7fffffu;
}

}  // namespace cubit
