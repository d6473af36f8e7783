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

#include "copies.cuh"
#include "gqa_decode_arguments.h"
#include "math.cuh"
#include "types.cuh"

namespace cubit {

/// Tokens of a sequence: what the device says, within the host's bound.
__device__ __forceinline__ int length_of(const GqaDecodeArguments& args, int batch) {
  if (args.lengths == nullptr) return args.max_length;
  return max(0, min(args.max_length, args.lengths[batch]));
}

struct Share {
  int first;   // chunk
  int last;    // one past
  int active;  // blocks of this sequence that have work
};

__device__ __forceinline__ Share share_of(int chunks, int splits, int split) {
  const int active = max(1, min(chunks, splits));  // an empty sequence still has one block, which stores its zeros
  if (split >= active) return {0, 0, active};
  // The first chunks % active blocks take one chunk more.
  const int least = static_cast<int>(static_cast<uint32>(chunks) / static_cast<uint32>(active));
  const int extra = chunks - least * active;
  const int first = split * least + min(split, extra);
  return {first, first + least + (split < extra ? 1 : 0), active};
}

/// Called by every thread after its partial results are stored; `arrived` is a word of shared memory, `sync` a barrier of
/// these threads, with the block's first among them. True in all threads of the block that arrives last; the counter is
/// then zero again and combine can read the other blocks' results.
template <class Sync>
__device__ __forceinline__ bool last_block(uint32* counter, int active, volatile uint32* arrived, Sync&& sync) {
  sync();
  if (threadIdx.x == 0) {
    uint32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    if (before == static_cast<uint32>(active) - 1) *counter = 0;
    *arrived = before;
  }
  sync();
  return *arrived == static_cast<uint32>(active) - 1;
}

/// Unnormalised results of the same heads: of the warps of a block, or of the blocks of a sequence. Strides in bytes.
struct Parts {
  const char* outputs;  // [count][heads][quads of channels] float4
  const char* stats;    // [count][heads] float2
  int count;            // at least 1
  uint32 part_stride;
  uint32 head_stride;
  uint32 stats_stride;  // from part to part
  // The first part lies this much further on.
  uint32 first_output = 0;
  uint32 first_stats = 0;

  /// The part's reference exponent and sum of weights for a head, and four channels of its output.
  __device__ __forceinline__ void load(int part, int head, int quad, float2& stat, float4& value) const {
    const uint64 index = static_cast<uint32>(part);
    const uint32 stats_at = 8 * head + (part == 0 ? first_stats : 0);
    const uint32 output_at = head * head_stride + 16 * quad + (part == 0 ? first_output : 0);
    stat = load_partial2(stats + index * stats_stride + stats_at);     // access: loads of warps' sums
    value = load_partial4(outputs + index * part_stride + output_at);  // access: loads of warps' outputs
  }
};

struct Combined {
  float4 output;  // four channels, unnormalised
  float reference;
  float sum;
};

__device__ __forceinline__ void scale(Combined& result, float factor) {
  result.sum *= factor;
  result.output.x *= factor;
  result.output.y *= factor;
  result.output.z *= factor;
  result.output.w *= factor;
}

template <int kCount>
__device__ __forceinline__ void add_parts(Combined& result, const float2 (&stat)[kCount],
                                          const float4 (&value)[kCount]) {
  float reference = result.reference;
#pragma unroll
  for (int i = 0; i < kCount; ++i) reference = maximum(reference, stat[i].x);
  scale(result, exp2_fast(result.reference - reference));
  result.reference = reference;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float weight = exp2_fast(stat[i].x - reference);
    result.sum += weight * stat[i].y;
    result.output.x += weight * value[i].x;
    result.output.y += weight * value[i].y;
    result.output.z += weight * value[i].z;
    result.output.w += weight * value[i].w;
  }
}

/// One pass: the sum so far is rescaled where the next parts have a larger reference. The loads of kAtOnce parts of kItems heads'
/// quads are in flight together. Of a negative head there is nothing.
template <int kAtOnce, int kItems>
__device__ __forceinline__ void combine(const Parts& parts, const int (&heads)[kItems], const int (&quads)[kItems],
                                        Combined (&results)[kItems]) {
  // Below every score, yet finite: a part without tokens has reference -inf and sum 0, and -inf - -inf must not reach
  // exp2.
#pragma unroll
  for (int item = 0; item < kItems; ++item) results[item] = {make_float4(0.f, 0.f, 0.f, 0.f), -3e38f, 0.f};
  int first = 0;
#pragma unroll 1
  do {
    float2 stat[kItems][kAtOnce];
    float4 value[kItems][kAtOnce];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        stat[item][i] = make_float2(negative_infinity(), 0.f);
        value[item][i] = make_float4(0.f, 0.f, 0.f, 0.f);
        if (first + i < parts.count && heads[item] >= 0)
          parts.load(first + i, heads[item], quads[item], stat[item][i], value[item][i]);
      }
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) add_parts(results[item], stat[item], value[item]);
    first += kAtOnce;
  } while (first < parts.count);
}

}  // namespace cubit
