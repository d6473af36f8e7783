// Scales of a KV cache that are a tensor of their own: what the loop of family sm80 asks of a number format, one tile ahead.
#pragma once

#include "gqa_decode_arguments.h"
#include "types.cuh"

namespace cubit {

/// What number formats whose rows hold all there is to know have in common.
struct WithoutScales {
  static constexpr bool kAnyFactor = false;
  struct TileScales {};

  template <class Cache, class Tokens>
  static __device__ __forceinline__ int look_up_scales(const Cache&, int, const Tokens&) {
    return 0;
  }
  template <class Cache, class Tokens>
  static __device__ __forceinline__ void fetch_scales(TileScales&, const Cache&, int, int, const Tokens&) {}
  static __device__ __forceinline__ float key_factor(const GqaDecodeArguments&) { return 1.f; }
  template <class Accumulator>
  static __device__ __forceinline__ void scale_outputs(Accumulator&, const GqaDecodeArguments&) {}
};

}  // namespace cubit
