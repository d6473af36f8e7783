// Accumulator and MMA role of the loops with mma.sync: which instruction multiplies, and what its accumulators are.
//
// Interface of a product:
//   Sum                        type of an accumulator, of 4 bytes
//   multiply(sums, a, b0, b1)  sums += a · b, of 16 columns of the weights (M), 8 rows (N) and 32 bytes along k of each
//                              of them. Operands and accumulators have the layouts of mma.cuh, with 16-bit pairs or
//                              with four bytes in a register
//
// A step of a loop is 64 bytes along k, hence two products.
#pragma once

#include "core/mma.cuh"
#include "core/mma_bytes.cuh"
#include "core/types.cuh"

namespace cubit {

/// Products of 16-bit values, accumulated in fp32.
template <class Element>
struct Float32MmaProduct {
  using Sum = float;

  static __device__ __forceinline__ void multiply(float (&sums)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
    mma_m16n8k16<Element>(sums, a[0], a[1], a[2], a[3], b0, b1);
  }
};

/// Products of bytes. Accumulator: int for signed bytes, float for e4m3.
template <class Accumulator>
struct ByteMmaProduct {
  using Sum = Accumulator;

  static __device__ __forceinline__ void multiply(Sum (&sums)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
    mma_m16n8k32(sums, a, b0, b1);
  }
};

}  // namespace cubit
