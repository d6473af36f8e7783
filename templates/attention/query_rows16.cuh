// Query operands for rows of 16-bit values: a head's channels as loaded from memory, converted to tensor-core operands.
// The B operands of kv_rows16.cuh and the A operands of kv_rows16_by_heads.cuh consist of the same words.
#pragma once

#include "attention/query_scale.cuh"
#include "core/copies.cuh"
#include "core/math.cuh"
#include "core/types.cuh"

namespace cubit {

/// Queries of heads lane / 4, lane / 4 + 8, and so on, kEights heads in all, for rows of Element. A step is 16
/// channels. The lane has channels 2c, 2c + 1, 2c + 8 and 2c + 9 of each step, with c = lane % 4.
template <class QueryElement, class Element, int kEights, int kSteps>
struct QueryForRows16 {
  // An fp16 query has more significant bits than bf16, so the query becomes a sum of two bf16 terms.
  static constexpr int kTerms = kSameType<Element, Bfloat16> && kSameType<QueryElement, Half> ? 2 : 1;
  // Only fp16 operands need a scale, because bf16 has the exponent range of float.
  static constexpr bool kScaled = kSameType<Element, Half>;

  /// [head][step][half], as loaded: word `half` has channels 16 · step + 8 · half + 2c and the next channel.
  uint32 words[kEights][kSteps][2];

  /// Loads the queries of `heads` heads; heads beyond the last are zeros.
  template <class Rows>
  __device__ __forceinline__ void fetch(Rows rows, int heads) {
    const int lane = lane_index();
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
      const int head = 8 * eight + lane / 4;
      const char* const row = settled(rows.row(head) + 4 * (lane % 4));
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32 word[1] = {0};
          if (head < heads) load_global<1, 4>(word, row + 32 * step + 16 * half);
          words[eight][step][half] = word[0];
        }
      }
    }
  }

  /// Exponent of the power of two by which a head's operands are multiplied.
  __device__ __forceinline__ int exponent(int eight) const {
    float peak = 0.f;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32 word = words[eight][step][half];
        peak = maximum(peak, maximum(fabsf(Pair<QueryElement>::low(word)), fabsf(Pair<QueryElement>::high(word))));
      }
    }
    return kScaled ? query_exponent(peak_of_head(peak)) : 0;
  }

  /// Multiplies the two channels of `raw` by `scale` and packs them as a word of each term. The terms add up to the
  /// channels; if Element and QueryElement are both bf16, `scale` must be 1.
  static __device__ __forceinline__ void pack(uint32 (&terms)[kTerms], uint32 raw, float scale) {
    if constexpr (kSameType<Element, Bfloat16> && kSameType<QueryElement, Bfloat16>) {
      terms[0] = raw;
    } else {
      const float low = Pair<QueryElement>::low(raw) * scale;
      const float high = Pair<QueryElement>::high(raw) * scale;
      terms[0] = Pair<Element>::pack(low, high);
      if constexpr (kTerms == 2)
        terms[1] = Pair<Element>::pack(low - Pair<Element>::low(terms[0]), high - Pair<Element>::high(terms[0]));
    }
  }
};

}  // namespace cubit
