// Quotients of many dividends by one divisor, correctly rounded, without the branch of a division.
#pragma once

#include "core/reciprocal.cuh"
#include "core/types.cuh"

namespace cubit {

/// x / divisor for 16-bit dividends x and a divisor from 2^-100 to 2^121, if the magnitude of the quotient is from
/// 2^-20 to 2^20: a product with the correctly rounded reciprocal, corrected once by its exact remainder. A smaller
/// quotient may be off by its last bits. tests/ops compares the result with a division where the quotient is close to a
/// tie of 8-bit results, for 11-bit dividends. That test has no fp32 dividends, which QuantisedBytes divides as well.
class Quotient {
 public:
  __device__ __forceinline__ explicit Quotient(float divisor)
      : divisor_(divisor), reciprocal_(reciprocal_rounded(divisor)) {}
  __device__ __forceinline__ float operator()(float x) const {
    const float near = __fmul_rn(x, reciprocal_);
    return __fmaf_rn(__fmaf_rn(-divisor_, near, x), reciprocal_, near);
  }

 private:
  float divisor_;
  float reciprocal_;
};

}  // namespace cubit
