// Score step: cap · tanh(score / cap). Interface of a step: see score_steps.cuh.
#pragma once

#include "attention/score_steps.cuh"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"

namespace cubit {

class SoftCap {
 public:
  static constexpr bool kRises = false;
  static constexpr bool kMayMask = false;

  template <class Columns>
  __device__ __forceinline__ SoftCap(const GqaDecodeArguments& args, const Columns&)
      : cap_(args.soft_cap_log2), inverse_(args.soft_cap_inverse) {}

  /// tanh(x) = 1 - 2 / (e^2x + 1), which loses what is small beside 1: there x - x³ / 3, wrong by 2 / 15 x⁴ of it. So a
  /// result's relative error is below 4e-6 whatever the cap. tanh.approx has 2^-11, too much for an exponent.
  __device__ __forceinline__ float apply(float score, int, int, const ScorePlace&) const {
    constexpr float kSmall = 0.04f;
    const float x = score * inverse_;
    const float large = fmaf(-2.f, reciprocal_fast(exp2_fast(x * (2.f * kLog2e)) + 1.f), 1.f) * cap_;
    const float small = score * fmaf(x * x, -1.f / 3.f, 1.f);
    return fabsf(x) < kSmall ? small : large;
  }

 private:
  float cap_;      // times log2(e)
  float inverse_;  // 1 / that
};

}  // namespace cubit
