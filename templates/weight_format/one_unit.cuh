// The part of a weight operand of the persistent GEMM (w4_register_operand.cuh) that deals with units of sums, for
// operands whose products all have one unit: dense weights, and weights that are dequantised before their product.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// No step begins a unit, and sums need no scale.
struct OneUnit {
  template <int kBuffer>
  static constexpr __device__ __forceinline__ bool begins_unit(int) {
    return false;
  }
  template <class Sums>
  __device__ __forceinline__ void change_unit(Sums&, int) const {}
  template <class Sums>
  __device__ __forceinline__ void scale(Sums&) const {}
};

}  // namespace cubit
