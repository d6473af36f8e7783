// The running softmax of one warp: scores come in tile by tile, weights go out, old results are rescaled when needed.
//
// A tile is 16 tokens × 8 heads in the accumulator layout of mma.cuh, so lane (r, c) sees heads 2c and 2c+1 and tokens
// r and r+8. Scores are in base 2. A weight is 2^(score - reference), where reference is a ceiling on the scores seen,
// less kWeightBits: weights lie in (0, 2^kWeightBits], far from the subnormals of fp16 for everything that matters.
// The ceiling is set kSlack above the maximum, so it moves rarely; only then are sums and accumulators rescaled. Where
// weights are multiplied by factors above 2^kFactorBits in fp16, they are kept that much smaller.
#pragma once

#include "math.cuh"
#include "types.cuh"

namespace cubit {

/// kAnyFactor: factors may be small as well: weights are as large as they allow, so that products are far from the
/// subnormals of fp16.
/// kAddsWeights: each tile's weights are added here; else a number format sums them, and gives their sums to add() in
/// the end.
template <int kHeadTiles, bool kAnyFactor = false, bool kAddsWeights = true>
class OnlineSoftmax {
 public:
  /// One factor per head: [head tile][head of the pair].
  using Factors = float[kHeadTiles][2];

  static constexpr float kWeightBits = 12.f;
  static constexpr float kSlack = 4.f;
  /// Factors up to 2^kFactorBits leave products of fp16 weights below 2^15.
  static constexpr float kFactorBits = 3.f;

  /// `reference`: below every score. Minus infinity, unless all scores that a head has in a tile may be that.
  explicit __device__ __forceinline__ OnlineSoftmax(float reference) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      reference_[tile][0] = reference_[tile][1] = reference;
      sum_[tile][0] = sum_[tile][1] = 0.f;
    }
  }

  /// Turns the scores of kSteps tiles into weights in place. Where a ceiling must move, calls rescale(factors): what
  /// has been accumulated with the old weights is to be multiplied by factors[tile][head of the pair].
  /// `peak`: where kScaled, the largest |factor| that some of the lane's weights will be multiplied by in fp16.
  template <bool kScaled, int kSteps, class Rescale>
  __device__ __forceinline__ void weigh(float (&scores)[kSteps][kHeadTiles][4], float peak, Rescale&& rescale) {
    bool above = kScaled && peak > factor_limit_;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) above |= scores[step][tile][i] > reference_[tile][i & 1] + bits_;
      }
    }
    if (__any_sync(kFullWarp, above)) {
      if constexpr (kScaled) lower_ceiling(peak);
      raise(scores, rescale);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[step][tile][i] = exp2_fast(scores[step][tile][i] - reference_[tile][i & 1]);
      }
    }
  }

  /// Adds weights as they are used, after rounding, so that rounding cancels in the quotient.
  __device__ __forceinline__ void add(int tile, float w0, float w1, float w2, float w3) {
    sum_[tile][0] += w0 + w2;
    sum_[tile][1] += w1 + w3;
  }

  /// Sums over the warp's tokens; afterwards every lane of a head has its total.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int head = 0; head < 2; ++head) {
#pragma unroll
        for (int distance = 4; distance < kWarpSize; distance *= 2) {
          sum_[tile][head] += __shfl_xor_sync(kFullWarp, sum_[tile][head], distance);
        }
      }
    }
  }

  __device__ __forceinline__ float reference(int tile, int head) const { return reference_[tile][head]; }
  __device__ __forceinline__ float sum(int tile, int head) const { return sum_[tile][head]; }

 private:
  /// For factors above the limit: weights become smaller (with the first, of any size), so that their products stay
  /// below 2^15.
  __device__ __forceinline__ void lower_ceiling(float peak) {
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      peak = maximum(peak, __shfl_xor_sync(kFullWarp, peak, distance));
    }
    if (peak <= factor_limit_) return;
    constexpr int kLeast = -64;  // beyond which weights would leave the range of float
    const int exponent = (kAnyFactor ? max(exponent_of(peak), kLeast) : exponent_of(peak)) + 1;
    factor_limit_ = power_of_two(exponent);
    bits_ = kWeightBits + kFactorBits - static_cast<float>(exponent);
  }

  template <int kSteps, class Rescale>
  __device__ __forceinline__ void raise(const float (&scores)[kSteps][kHeadTiles][4], Rescale&& rescale) {
    Factors factors;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int head = 0; head < 2; ++head) {
        float peak = maximum(scores[0][tile][head], scores[0][tile][head + 2]);
#pragma unroll
        for (int step = 1; step < kSteps; ++step) {
          peak = maximum(peak, maximum(scores[step][tile][head], scores[step][tile][head + 2]));
        }
#pragma unroll
        for (int distance = 4; distance < kWarpSize; distance *= 2) {
          peak = maximum(peak, __shfl_xor_sync(kFullWarp, peak, distance));
        }
        const float old = reference_[tile][head];
        // A head whose ceiling holds keeps it: its factor is exactly 1.
        const float raised = peak > old + bits_ ? peak + (kSlack - bits_) : old;
        factors[tile][head] = old == raised ? 1.f : exp2_fast(old - raised);
        reference_[tile][head] = raised;
        if constexpr (kAddsWeights) sum_[tile][head] *= factors[tile][head];
      }
    }
    rescale(factors);
  }

  float bits_ = kWeightBits;
  float factor_limit_ = kAnyFactor ? 0.f : 8.f;  // 2^kFactorBits
  float reference_[kHeadTiles][2];
  float sum_[kHeadTiles][2];
};

}  // namespace cubit
