// Scaling of queries to fp16 tensor-core operands without loss: each head is multiplied by a power of two.
#pragma once

#include "core/math.cuh"
#include "core/types.cuh"

namespace cubit {

/// Exponent of the power of two that brings a head's largest magnitude `peak` into [2^7, 2^8). In that range, bf16 and
/// fp16 queries are exact in fp16 down to 2^-21 of the maximum. The INT4 format divides half of the channels by 16, and
/// these are exact down to 2^-17 of the maximum. If the sum over kSummedChannels channels could exceed the range of
/// fp16, the target is one bit less. The exponent is at most 126, so that power_of_two() can represent both the factor
/// and its reciprocal.
template <int kSummedChannels = 1>
__device__ __forceinline__ int query_exponent(float peak) {
  constexpr int kTarget = kSummedChannels * 256 <= 65504 ? 7 : 6;
  const int exponent = exponent_of(peak);
  if (peak == 0.f) return 0;
  return kTarget - (exponent < kTarget - 126 ? kTarget - 126 : exponent);
}

/// Largest |q| of a head whose channels are spread over the 4 lanes of equal lane / 4.
__device__ __forceinline__ float peak_of_head(float peak) {
  peak = maximum(peak, __shfl_xor_sync(kFullWarp, peak, 1));
  return maximum(peak, __shfl_xor_sync(kFullWarp, peak, 2));
}

/// Moves per-head factors from the lanes that hold a head's channels (head = lane / 4) to the lanes that hold the
/// head's scores (heads 2c and 2c+1, with c = lane % 4).
__device__ __forceinline__ void spread_to_score_lanes(float (&dst)[2], float per_head) {
  const int c = lane_index() % 4;
  dst[0] = __shfl_sync(kFullWarp, per_head, 8 * c);
  dst[1] = __shfl_sync(kFullWarp, per_head, 8 * c + 4);
}

}  // namespace cubit
