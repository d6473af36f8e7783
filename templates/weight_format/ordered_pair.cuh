// Dequantises a pair of weights with activation order: two neighbouring values along k, each with a scale of its own.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Dequantises pairs of weights, whose scales and numbers are fp16.
template <class Element>
struct OrderedPair;

template <>
struct OrderedPair<Half> {
  /// numbers · scales.
  static __device__ __forceinline__ uint32 scale(uint32 numbers, uint32 scales) {
    return Pair<Half>::product(numbers, scales);
  }
};

template <>
struct OrderedPair<Bfloat16> {
  static __device__ __forceinline__ uint32 scale(uint32 numbers, uint32 scales) {
    return Pair<Bfloat16>::pack(Pair<Half>::low(numbers) * Pair<Half>::low(scales),
                                Pair<Half>::high(numbers) * Pair<Half>::high(scales));
  }
};

}  // namespace cubit
