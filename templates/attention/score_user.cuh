// Score modification step that the user writes: a few lines of device code in a header that the plan includes before
// this one.
//
//   __device__ float modify_score(float score, const cubit::ScorePlace& place, const void* parameters);
//
// `score` is already scaled, capped and biased, and it is not in base 2. Returning minus infinity hides the token.
// `parameters` is the pointer that the launch was given. Interface of a step: see score_steps.cuh.
#pragma once

#include "attention/score_steps.cuh"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

class UserScore {
 public:
  static constexpr bool kRises = false;
  static constexpr bool kMayMask = true;

  template <class QueryRows>
  __device__ __forceinline__ UserScore(const GqaDecodeArguments& args, const QueryRows&)
      : parameters_(args.score_parameters) {}

  __device__ __forceinline__ float apply(float score, int, int, const ScorePlace& place) const {
    return modify_score(score * kLn2, place, parameters_) * kLog2e;
  }

 private:
  const void* parameters_;
};

}  // namespace cubit
