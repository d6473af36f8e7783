// Work split: which chunks of a sequence a block takes, and how the partial results of its blocks become one.
//
// A chunk is the tokens that all warps of a block take in one step. A sequence of n chunks is dealt out evenly to
// min(splits, n) blocks; the others have nothing to do. The grid depends on host-side bounds only, the shares on the
// true lengths. Each block writes an unnormalised partial output; the block that is last at the sequence's counter
// reads them all in order of their split, so the result does not depend on who was last, and sets the counter back to
// zero.
//
// PTX ISA, "Memory Consistency Model": bar.sync orders a block's stores before its atom.acq_rel, whose observation by
// the last block orders them before that block's loads.
#pragma once

#include "math.cuh"
#include "types.cuh"

namespace cubit {

struct Share {
  int first;   // chunk
  int last;    // one past
  int active;  // blocks of this sequence that have work
};

__device__ __forceinline__ Share share_of(int chunks, int splits, int split) {
  const int active = max(1, min(chunks, splits));  // an empty sequence still has one block, which stores its zeros
  if (split >= active) return {0, 0, active};
  // The first chunks % active blocks take one chunk more.
  const int least = chunks / active;
  const int extra = chunks % active;
  const int first = split * least + min(split, extra);
  return {first, first + least + (split < extra ? 1 : 0), active};
}

/// Called by every thread after its partial results are stored; `arrived` is a word of shared memory. True in all threads
/// of the block that arrives last; the counter is then zero again and combine can read the other blocks' results.
__device__ __forceinline__ bool last_block(uint32* counter, int active, volatile uint32* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    if (before == static_cast<uint32>(active) - 1) *counter = 0;
    *arrived = before;
  }
  __syncthreads();
  return *arrived == static_cast<uint32>(active) - 1;
}

/// Loads of partial results, in shared memory or stored by other blocks: past the L1 cache, which is not coherent.
__device__ __forceinline__ float4 load_partial(const float4* src) {
  float4 value;
  asm volatile("ld.volatile.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(src)
               : "memory");
  return value;
}
__device__ __forceinline__ float2 load_partial(const float2* src) {
  float2 value;
  asm volatile("ld.volatile.v2.f32 {%0,%1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(src) : "memory");
  return value;
}

/// Unnormalised results of the same heads: of the warps of a block, or of the blocks of a sequence.
struct Parts {
  const float4* outputs;  // [count][heads][quads of channels]
  const float2* stats;    // [count][heads] reference exponent and sum of weights
  int count;
  int part_stride;   // quads
  int head_stride;   // quads
  int stats_stride;  // from part to part
};

struct Combined {
  float4 output;  // four channels, unnormalised
  float reference;
  float sum;
};

/// Loads of this many parts are in flight together: the last block waits for memory once per batch of them.
constexpr int kPartsAtOnce = 8;

/// What a part counts for beside a reference that is at least its own. A part without tokens has reference -inf and sum
/// 0; -inf - -inf must not reach exp2.
__device__ __forceinline__ float weight_of(float own, float reference) {
  return own == negative_infinity() ? 0.f : exp2_fast(own - reference);
}

__device__ __forceinline__ void add_weighted(Combined& result, float4 value, float sum, float weight) {
  result.sum += weight * sum;
  result.output.x += weight * value.x;
  result.output.y += weight * value.y;
  result.output.z += weight * value.z;
  result.output.w += weight * value.w;
}

__device__ __forceinline__ Combined combine(const Parts& parts, int head, int quad) {
  const float2* stats = parts.stats + head;
  const float4* outputs = parts.outputs + head * parts.head_stride + quad;
  Combined result{make_float4(0.f, 0.f, 0.f, 0.f), negative_infinity(), 0.f};
#pragma unroll 1
  for (int first = 0; first < parts.count; first += kPartsAtOnce) {
    float2 stat[kPartsAtOnce];
    float4 value[kPartsAtOnce];
    float reference = result.reference;
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      const int part = min(first + i, parts.count - 1);             // beyond the last: the last again, with weight 0
      stat[i] = load_partial(stats + part * parts.stats_stride);    // access: loads of warps' sums
      value[i] = load_partial(outputs + part * parts.part_stride);  // access: loads of warps' outputs
    }
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) reference = maximum(reference, stat[i].x);
    const Combined before = result;
    result = {make_float4(0.f, 0.f, 0.f, 0.f), reference, 0.f};
    add_weighted(result, before.output, before.sum, weight_of(before.reference, reference));
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      const bool is_part = first + i < parts.count;
      add_weighted(result, value[i], stat[i].y, is_part ? weight_of(stat[i].x, reference) : 0.f);
    }
  }
  return result;
}

}  // namespace cubit
