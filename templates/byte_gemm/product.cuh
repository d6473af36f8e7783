// Accumulator and MMA role for 8-bit operands. Interface: see mma_product.cuh.
#pragma once

#include "core/mma_bytes.cuh"
#include "core/types.cuh"

namespace cubit {

/// Accumulator: int for signed bytes, float for e4m3.
template <class Accumulator>
struct ByteMmaProduct {
  using Sum = Accumulator;

  static __device__ __forceinline__ void multiply(Sum (&sums)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
    mma_m16n8k32(sums, a, b0, b1);
  }
};

}  // namespace cubit
