// Score modification: what happens to a score between its scale and the mask, step after step. Order: soft cap, ALiBi,
// a user's own. A plan names the steps; one that names none compiles to nothing.
//
// Interface of a step, a role header score_*.cuh:
//   kRises                        whether later tokens get higher scores, so that they had better come first: see
//                                 online_softmax.cuh
//   kMayMask                      whether a score may become minus infinity, so that a head may see no token at all
//   Step(args, columns)           once per block; columns.head(column): which query head a column of scores is
//   apply(score, set, head, place)   the score of a column in base 2, that is times log2(e); `set` and `head`, see
//                                    score_layout.cuh, are constants
#pragma once

#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"

namespace cubit {

/// Where a score belongs: the query at `query_position` of a sequence looks at the key at `position`, both from 0.
struct ScorePlace {
  int batch;
  int head;  // of all query heads
  int query_position;
  int position;
};

template <class... Steps>
class ScoreSteps : Steps... {
 public:
  static constexpr bool kIsPlain = sizeof...(Steps) == 0;
  static constexpr bool kRises = (Steps::kRises || ...);
  static constexpr bool kMayMask = (Steps::kMayMask || ...);

  template <class Columns>
  __device__ __forceinline__ ScoreSteps([[maybe_unused]] const GqaDecodeArguments& args,
                                        [[maybe_unused]] const Columns& columns)
      : Steps(args, columns)... {}

  __device__ __forceinline__ float apply(float score, [[maybe_unused]] int set, [[maybe_unused]] int head,
                                         [[maybe_unused]] const ScorePlace& place) const {
    ((score = Steps::apply(score, set, head, place)), ...);
    return score;
  }
};

}  // namespace cubit
