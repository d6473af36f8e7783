// Score step: attention with linear biases, slope of the head · (position - query position). Interface of a step: see
// score_steps.cuh.
#pragma once

#include "gqa_decode_arguments.h"
#include "gqa_decode_lanes.h"
#include "math.cuh"
#include "score_steps.cuh"
#include "types.cuh"

namespace cubit {

template <int kHeadTiles>
class Alibi {
 public:
  static constexpr bool kRises = true;
  static constexpr bool kMayMask = false;

  template <class Columns>
  __device__ __forceinline__ Alibi(const GqaDecodeArguments& args, const Columns& columns) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const int column = lanes::accumulator_head(lane_index(), tile, pair);
        slopes_[tile][pair] = args.alibi_slopes[columns.head(column)] * kLog2e;
      }
    }
  }

  __device__ __forceinline__ float apply(float score, int tile, int pair, const ScorePlace& place) const {
    return fmaf(slopes_[tile][pair], static_cast<float>(place.position - place.query_position), score);
  }

 private:
  float slopes_[kHeadTiles][2];  // times log2(e)
};

}  // namespace cubit
