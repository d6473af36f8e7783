// Score modification step: attention with linear biases (ALiBi), slope of the head · (position - query position).
// Interface of a step: see score_steps.cuh.
#pragma once

#include "attention/score_steps.cuh"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

/// Layout is the layout of the scores, see score_layout.cuh.
template <class Layout>
class Alibi {
 public:
  static constexpr bool kRises = true;
  static constexpr bool kMayMask = false;

  template <class QueryRows>
  __device__ __forceinline__ Alibi(const GqaDecodeArguments& args, const QueryRows& query_rows) {
#pragma unroll
    for (int set = 0; set < Layout::kSets; ++set) {
#pragma unroll
      for (int head = 0; head < 2; ++head) {
        const int query_row = Layout::query_row(lane_index(), set, head);
        slopes_[set][head] = args.alibi_slopes[query_rows.head(query_row)] * kLog2e;
      }
    }
  }

  __device__ __forceinline__ float apply(float score, int set, int head, const ScorePlace& place) const {
    return fmaf(slopes_[set][head], static_cast<float>(place.position - place.query_position), score);
  }

 private:
  float slopes_[Layout::kSets][2];  // multiplied by log2(e)
};

}  // namespace cubit
