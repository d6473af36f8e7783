// Queries as operands beside rows of 16-bit values: a head's channels in the lanes of one head, as they come from
// memory and as tensor cores take them. B operands (kv_rows16.cuh) and A operands (kv_rows16_by_heads.cuh) are the same
// words.
#pragma once

#include "attention/query_scale.cuh"
#include "core/copies.cuh"
#include "core/math.cuh"
#include "core/types.cuh"

namespace cubit {

/// Of heads lane / 4, lane / 4 + 8 …, kEights of them, 16 channels per step, as rows of Element want them.
template <class QueryElement, class Element, int kEights, int kSteps>
struct QueryForRows16 {
  // An fp16 query has more bits than bf16 holds: it becomes a sum of two bf16 terms.
  static constexpr int kTerms = kSameType<Element, Bfloat16> && kSameType<QueryElement, Half> ? 2 : 1;
  // Only fp16 operands need a scale: bf16 has the exponents of float.
  static constexpr bool kScaled = kSameType<Element, Half>;

  /// [head][step][channels 0-7 or 8-15 of the step]: two of them.
  uint32 words[kEights][kSteps][2];

  /// `rows`: of `heads` heads; zeros beyond.
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

  /// What a head's operands are multiplied by is 2 to the power of this.
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

  /// A word of an operand, in each term.
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
