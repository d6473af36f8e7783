// Split-KV partial results of attention and their combination.
//
// Each block that works on a share of a sequence produces one partial result: for each query row a reference exponent
// r, the sum of the weights 2^(s - r) over the block's tokens, where s is a token's score in base 2, and the sum of the
// values times these weights (unnormalised output). Combining rescales all partial results to a common reference
// exponent.
//
// In this file `head` is the index of a query row, and `quad` the index of four neighbouring channels.
#pragma once

#include "core/copies.cuh"
#include "core/math.cuh"
#include "core/types.cuh"

namespace cubit {

/// Partial results of the same query rows from the blocks of a sequence. Strides are in bytes.
struct PartialResults {
  const char* outputs;   // [count][rows][quads of channels] float4
  const char* stats;     // [count][rows] float2: reference exponent and sum of weights
  int count;             // partial results, at least 1
  uint32 result_stride;  // of outputs, from one partial result to the next
  uint32 head_stride;    // of outputs, from one query row to the next
  uint32 stats_stride;   // of stats, from one partial result to the next
  // Additional offsets, in bytes, of the first partial result. In the sm_90 kernel the block in which a sequence begins
  // uses its odd slot, and all other blocks of the sequence use their even slots.
  uint32 first_output = 0;
  uint32 first_stats = 0;

  /// The partial results from number `first` on, at most `most` of them; the count is zero or negative if none is left.
  __device__ __forceinline__ PartialResults from(int first, int most) const {
    PartialResults result = *this;
    result.outputs += static_cast<uint64>(static_cast<uint32>(first)) * result_stride;
    result.stats += static_cast<uint64>(static_cast<uint32>(first)) * stats_stride;
    result.count = min(most, count - first);
    if (first == 0) return result;
    result.first_output = 0;
    result.first_stats = 0;
    return result;
  }

  /// Reference exponent and sum of weights of a partial result for a query row.
  __device__ __forceinline__ float2 load_stat(int index, int head) const {
    const uint32 at = 8 * head + (index == 0 ? first_stats : 0);
    return load_partial2(stats + static_cast<uint64>(static_cast<uint32>(index)) * stats_stride + at);
  }
  /// Address of four channels of a partial result's output.
  __device__ __forceinline__ const char* output(int index, int head, int quad) const {
    const uint32 at = head * head_stride + 16 * quad + (index == 0 ? first_output : 0);
    return outputs + static_cast<uint64>(static_cast<uint32>(index)) * result_stride + at;
  }
  __device__ __forceinline__ float4 load_output(int index, int head, int quad) const {
    return load_partial4(output(index, head, quad));
  }
};

/// Combined result of a query row, for four channels.
struct Combined {
  float4 output;    // four channels, unnormalised
  float reference;  // reference exponent, in base 2
  float sum;        // sum of weights relative to the reference exponent
};

__device__ __forceinline__ void scale(Combined& result, float factor) {
  result.sum *= factor;
  result.output.x *= factor;
  result.output.y *= factor;
  result.output.z *= factor;
  result.output.w *= factor;
}

__device__ __forceinline__ void add(Combined& result, float weight, float4 value) {
  result.output.x += weight * value.x;
  result.output.y += weight * value.y;
  result.output.z += weight * value.z;
  result.output.w += weight * value.w;
}

/// Neutral element of add(). The reference is finite: a partial result without tokens has reference -inf and sum 0, and
/// exp2 must never receive -inf - -inf.
__device__ __forceinline__ Combined nothing() { return {make_float4(0.f, 0.f, 0.f, 0.f), kBelowEveryScore, 0.f}; }

/// Adds kCount partial results; stat[i] is (reference exponent, sum of weights). A missing partial result has reference
/// -inf, sum 0 and outputs 0.
template <int kCount>
__device__ __forceinline__ void add(Combined& result, const float2 (&stat)[kCount], const float4 (&value)[kCount]) {
  float reference = result.reference;
#pragma unroll
  for (int i = 0; i < kCount; ++i) reference = maximum(reference, stat[i].x);
  scale(result, exp2_fast(result.reference - reference));
  result.reference = reference;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float weight = exp2_fast(stat[i].x - reference);
    result.sum += weight * stat[i].y;
    add(result, weight, value[i]);
  }
}

/// Combines partial results in one pass: the running sum is rescaled whenever the next results have a larger reference.
/// The loads of kAtOnce partial results are in flight together.
template <int kAtOnce>
__device__ __forceinline__ Combined combine(const PartialResults& partials, int head, int quad) {
  Combined result = nothing();
  int first = 0;
#pragma unroll 1
  do {
    float2 stat[kAtOnce];
    float4 value[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      stat[i] = make_float2(negative_infinity(), 0.f);
      value[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (first + i >= partials.count) continue;
      stat[i] = partials.load_stat(first + i, head);
      value[i] = partials.load_output(first + i, head, quad);
    }
    add(result, stat, value);
    first += kAtOnce;
  } while (first < partials.count);
  return result;
}

/// Combines partial results with whole warps whose lanes have the same query row. Lane i reads the statistics of
/// partial result i, which frees registers for the outputs of twice as many partial results.
template <int kAtOnce>
__device__ __forceinline__ Combined combine_by_warp(const PartialResults& partials, int head, int quad) {
  static_assert(kAtOnce <= kWarpSize && (kAtOnce & (kAtOnce - 1)) == 0);
  Combined result = nothing();
  const int lane = lane_index() % kAtOnce;
  int first = 0;
#pragma unroll 1
  do {
    float2 stat = make_float2(negative_infinity(), 0.f);
    if (first + lane < partials.count) stat = partials.load_stat(first + lane, head);
    float4 value[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      value[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (first + i < partials.count) value[i] = partials.load_output(first + i, head, quad);
    }
    float reference = maximum(result.reference, stat.x);
#pragma unroll
    for (int distance = 1; distance < kAtOnce; distance *= 2)
      reference = maximum(reference, __shfl_xor_sync(kFullWarp, reference, distance));
    scale(result, exp2_fast(result.reference - reference));
    result.reference = reference;
    const float weight = exp2_fast(stat.x - reference);
    float sum = weight * stat.y;
#pragma unroll
    for (int distance = 1; distance < kAtOnce; distance *= 2) sum += __shfl_xor_sync(kFullWarp, sum, distance);
    result.sum += sum;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) add(result, __shfl_sync(kFullWarp, weight, i), value[i]);
    first += kAtOnce;
  } while (first < partials.count);
  return result;
}

/// Shared memory of combine_through_memory.
struct CombineMemory {
  uint32 outputs;  // of the thread: 16 bytes per partial result, `pitch` apart
  uint32 pitch;
  uint32 weights;  // of the warp: weight and weighted sum of a partial result, 8 bytes per lane
};

/// Combines partial results with whole warps whose lanes have the same query row, by copying the outputs of kAtOnce
/// partial results to shared memory. The outputs then need neither registers nor instructions of their own, which makes
/// the code a third as long.
template <int kAtOnce>
__device__ __forceinline__ Combined combine_through_memory(const PartialResults& partials, int head, int quad,
                                                           const CombineMemory& memory) {
  constexpr int kStep = 2;
  static_assert(kAtOnce <= kWarpSize && kAtOnce % kStep == 0);
  Combined result = nothing();
  const int lane = lane_index();
  int first = 0;
#pragma unroll 1
  do {
    const int count = min(partials.count - first, kAtOnce);
    float2 own = make_float2(negative_infinity(), 0.f);
    if (lane < count) own = partials.load_stat(first + lane, head);
    const int whole = (count + kStep - 1) / kStep * kStep;  // copies beyond `count` write zeros
#pragma unroll 1
    for (int i = 0; i < whole; ++i) {
      const char* const src = partials.output(first + min(i, count - 1), head, quad);
      copy_async<16>(memory.outputs + i * memory.pitch, src, i < count);  // access: cp.async of partial results
    }
    commit_copies();
    float reference = maximum(result.reference, own.x);
#pragma unroll 1
    for (int distance = 1; distance < kWarpSize; distance *= 2)
      reference = maximum(reference, __shfl_xor_sync(kFullWarp, reference, distance));
    scale(result, exp2_fast(result.reference - reference));
    result.reference = reference;
    const float weight = exp2_fast(own.x - reference);
    __syncwarp();  // every lane has read the previous weights
    const float2 factors_of_lane = make_float2(weight, weight * own.y);
    store_shared(memory.weights + 8 * lane, factors_of_lane);  // access: stores of partial results' weights
    wait_copies<0>();
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < whole; i += kStep) {
#pragma unroll
      for (int j = 0; j < kStep; ++j) {
        const float2 factors = load_shared2(memory.weights + 8 * (i + j));  // access: loads of partial results' weights
        const float4 value = load_shared4(memory.outputs + (i + j) * memory.pitch);  // access: loads of partial results
        result.sum += factors.y;
        add(result, factors.x, value);
      }
    }
    first += kAtOnce;
  } while (first < partials.count);
  return result;
}

}  // namespace cubit
