// Division by an invariant integer, shared by host and device: the host precomputes the multiplier and the shift.
#pragma once

namespace cubit {

/// A divisor known to the host. For dividends below 2^31, floor(dividend / divisor) equals dividend * multiplier >>
/// shift, with multiplier = ceil(2^shift / divisor) and shift = 31 + ceil(log2(divisor)). Source: Granlund and
/// Montgomery, "Division by Invariant Integers using Multiplication", theorem 4.2.
struct DivideBy {
  unsigned divisor;
  unsigned multiplier;
  int shift;
};

#ifdef __CUDACC__
__device__ __forceinline__ unsigned quotient(unsigned dividend, DivideBy by) {
  return static_cast<unsigned>(static_cast<unsigned long long>(dividend) * by.multiplier >> by.shift);
}
#endif

}  // namespace cubit
