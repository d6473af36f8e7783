// Score modification step: soft cap, cap · tanh(score / cap). Interface of a step: see score_steps.cuh.
#pragma once

#include "attention/score_steps.cuh"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

class SoftCap {
 public:
  static constexpr bool kRises = false;
  static constexpr bool kMayMask = false;

  template <class QueryRows>
  __device__ __forceinline__ SoftCap(const GqaDecodeArguments& args, const QueryRows&)
      : cap_(args.soft_cap_log2), inverse_(args.soft_cap_inverse) {}

  /// Computes tanh(x) as 1 - 2 / (e^2x + 1). For small x that formula loses precision, so x - x³ / 3 replaces it there,
  /// with a relative error of 2 / 15 x⁴. The relative error of a result is below 4e-6 for any cap. The instruction
  /// tanh.approx has an error of 2^-11, which is too much for an exponent.
  __device__ __forceinline__ float apply(float score, int, int, const ScorePlace&) const {
    constexpr float kSmall = 0.04f;
    const float x = score * inverse_;
    const float large = fmaf(-2.f, reciprocal_fast(exp2_fast(x * (2.f * kLog2e)) + 1.f), 1.f) * cap_;
    const float small = score * fmaf(x * x, -1.f / 3.f, 1.f);
    return fabsf(x) < kSmall ? small : large;
  }

 private:
  float cap_;      // multiplied by log2(e)
  float inverse_;  // reciprocal of the cap
};

}  // namespace cubit
