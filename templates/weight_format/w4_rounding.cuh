// Rounding of weights to 4 bits: a quantisation group's scale and zero, and eight rounded weights as a word.
//
// Interface of a fit: fit(lowest, highest) -> W4Factors, from the smallest and the largest weight of a group; zero
// counts as one of the weights. The scale is the fp16 number that is stored, from 2^-24 to 65504.
//
//   AsymmetricFit  scale = fp16((highest - lowest) / 15), zero = round(-lowest / scale), from kLeastZero to 15. If a
//                  zero of 0 cannot be stored (kLeastZero = 1), lowest is first reduced to at most
//                  -highest · float(1 / 14).
//   SymmetricFit   scale = fp16(2 · max(highest, -lowest) / 15), zero = 8
//
// A group with an infinity or NaN gets the scale NaN and the least zero, and its weights are stored as 0. The highest
// must be NaN if one of the weights is.
//
// A weight w is stored as round(w / scale) + zero, clamped to 0 … 15. All arithmetic is in float, and halves are
// rounded to even.
#pragma once

#include "core/math.cuh"
#include "core/reciprocal.cuh"
#include "core/types.cuh"

namespace cubit {

inline constexpr int kWordWeights = 8;

struct W4Factors {
  float scale;
  float zero;
  float steps;  // 1 / scale
};

/// Scale, as stored, of a group whose weights span `width`. A span too large for any fp16 scale may be infinite, which
/// divided_by() does not accept, so the function limits the span first.
__device__ __forceinline__ float scale_of(float width) {
  const float scale = divided_by<15>(fminf(width, 0x1p30f));
  return Pair<Half>::low(Pair<Half>::pack(fminf(fmaxf(scale, 0x1p-24f), 65504.f), 0.f));
}

template <int kLeastZero>
struct AsymmetricFit {
  static __device__ __forceinline__ W4Factors fit(float lowest, float highest) {
    if constexpr (kLeastZero == 1) lowest = fminf(lowest, -__fmul_rn(highest, 1.f / 14.f));
    const float scale = scale_of(highest - lowest);
    const float steps = fminf(fmaxf(Reciprocal(scale)(-lowest), static_cast<float>(kLeastZero)), 15.f);
    if (!is_finite(larger_or_nan(highest, -lowest))) return {quiet_nan(), static_cast<float>(kLeastZero), quiet_nan()};
    return {scale, __fsub_rn(__fadd_rn(steps, kRounder), kRounder), 1.f / scale};
  }
};

struct SymmetricFit {
  static __device__ __forceinline__ W4Factors fit(float lowest, float highest) {
    const float scale = scale_of(2.f * fmaxf(highest, -lowest));
    if (!is_finite(larger_or_nan(highest, -lowest))) return {quiet_nan(), 8.f, quiet_nan()};
    return {scale, 8.f, 1.f / scale};
  }
};

/// Rounds eight weights to nibbles; the first weight is in the lowest nibble. The function also raises `largest` to the
/// largest error after dequantisation and adds the squares of the errors to `squares`. Each sum with kRounder has the
/// rounded number in its low bits; the other bits add up to kRounderNibbles (reciprocal.cuh). The zero is added to all
/// nibbles at the end.
__device__ __forceinline__ uint32 round_word(const float (&weights)[kWordWeights], const W4Factors& factors,
                                             float& largest, float& squares) {
  const Reciprocal steps(factors.scale, factors.steps);
  uint32 word = 0;
#pragma unroll
  for (int i = kWordWeights - 1; i >= 0; --i) {
    const float bounded = fminf(fmaxf(steps(weights[i]), -factors.zero), 15.f - factors.zero);
    const float rounded = __fadd_rn(bounded, kRounder);
    word = 16 * word + __float_as_uint(rounded);
    // The product of a 5-bit and an 11-bit significand is exact, so rounding the product would change nothing.
    const float off = fabsf(__fmaf_rn(-__fsub_rn(rounded, kRounder), factors.scale, weights[i]));
    largest = fmaxf(largest, off);
    squares += off * off;
  }
  return word - kRounderNibbles + static_cast<uint32>(factors.zero) * 0x11111111u;
}

}  // namespace cubit
