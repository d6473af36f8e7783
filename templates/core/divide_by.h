// Shared by host and device: what a kernel is given to divide by.
#pragma once

namespace cubit {

/// Division by a number that the host knows: for dividends below 2^31, floor(dividend / divisor) =
/// dividend * multiplier >> shift with multiplier = ceil(2^shift / divisor) and shift = 31 + ceil(log2(divisor)).
/// Granlund and Montgomery, "Division by Invariant Integers using Multiplication", theorem 4.2.
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
