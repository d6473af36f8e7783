// Score modification: a sequence of steps between the scaling of a score and the mask.
//
// The order of the steps is soft cap, ALiBi, user-defined step. A plan names the steps; a plan without steps compiles
// to nothing.
//
// Interface of a step, a role header score_*.cuh:
//   kRises                        whether later tokens get higher scores; the kernel then visits them first, see
//                                 online_softmax.cuh
//   kMayMask                      whether a score may become minus infinity, so that a query row may see no token at
//                                 all
//   Step(args, query_rows)        constructor, once per block; query_rows.head(row) is the query head of a query row
//   apply(score, set, head, place)   the modified score of a query row, in base 2 (multiplied by log2(e)); `set` and
//                                 `head` are constants, see score_layout.cuh
#pragma once

#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

/// Context of a score: the query at `query_position` of a sequence and the key at `position`, both counted from 0.
struct ScorePlace {
  int batch;
  int head;  // among all query heads
  int query_position;
  int position;
};

template <class... Steps>
class ScoreSteps : Steps... {
 public:
  static constexpr bool kIsPlain = sizeof...(Steps) == 0;
  static constexpr bool kRises = (Steps::kRises || ...);
  static constexpr bool kMayMask = (Steps::kMayMask || ...);

  template <class QueryRows>
  __device__ __forceinline__ ScoreSteps([[maybe_unused]] const GqaDecodeArguments& args,
                                        [[maybe_unused]] const QueryRows& query_rows)
      : Steps(args, query_rows)... {}

  __device__ __forceinline__ float apply(float score, [[maybe_unused]] int set, [[maybe_unused]] int head,
                                         [[maybe_unused]] const ScorePlace& place) const {
    ((score = Steps::apply(score, set, head, place)), ...);
    return score;
  }
};

}  // namespace cubit
