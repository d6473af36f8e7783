// Online softmax of one warp: turns scores into weights step by step, and rescales earlier results when the running
// maximum grows.
//
// Which scores a lane holds: see score_layout.cuh. Scores are in base 2. A weight is 2^(score - reference). The
// reference is a ceiling on the scores seen so far, minus kWeightBits. Weights therefore lie in (0, 2^kWeightBits], far
// from the subnormals of fp16 wherever precision matters. The ceiling is set kSlack above the maximum, so that it rises
// rarely; sums and accumulators are rescaled only when it rises. If weights are multiplied in fp16 by factors above
// 2^kFactorBits, the weights are made smaller by the same ratio.
#pragma once

#include "attention/score_layout.cuh"
#include "core/math.cuh"
#include "core/types.cuh"

namespace cubit {

/// kAnyFactor: the factors of weights may also be small. Weights are then as large as the factors allow, which keeps
/// the products far from the subnormals of fp16.
/// kAddsWeights: this class adds up the weights of each step. Otherwise a number format sums the weights and passes the
/// sums to add() at the end; only then are sums nonzero, so raise() need not rescale them.
///
/// All lanes of a warp call weigh() and finish() together, because both functions contain shuffles. A query row has the
/// same reference in all lanes that hold its scores.
template <class Layout, bool kAnyFactor = false, bool kAddsWeights = true>
class OnlineSoftmax {
  static constexpr int kSets = Layout::kSets;
  static constexpr int kTiles = Layout::kTiles;

 public:
  /// One factor per query row: [set][head].
  using Factors = float[kSets][2];

  static constexpr float kWeightBits = 12.f;
  static constexpr float kSlack = 4.f;
  /// Factors up to 2^kFactorBits keep products of fp16 weights below 2^15.
  static constexpr float kFactorBits = 3.f;

  /// `reference` must be below every score. Minus infinity is allowed unless all scores of a query row in a tile may be
  /// minus infinity.
  explicit __device__ __forceinline__ OnlineSoftmax(float reference) {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      reference_[set][0] = reference_[set][1] = reference;
      sum_[set][0] = sum_[set][1] = 0.f;
    }
  }

  /// Turns the scores of kSteps steps into weights, in place. When a ceiling must rise, the function calls
  /// rescale(factors); the caller then multiplies everything accumulated so far by factors[set][head]. If kScaled,
  /// `peak` is the largest |factor| by which the lane's weights will be multiplied in fp16.
  template <bool kScaled, int kSteps, class Rescale>
  __device__ __forceinline__ void weigh(float (&scores)[kSteps][kTiles][4], float peak, Rescale&& rescale) {
    bool above = kScaled && peak > factor_limit_;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) above |= Layout::has(i) && scores[step][tile][i] > ceiling(tile, i);
      }
    }
    if (__any_sync(kFullWarp, above)) {
      if constexpr (kScaled) lower_ceiling(peak);
      raise(scores, rescale);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (Layout::has(i)) scores[step][tile][i] = exp2_fast(scores[step][tile][i] - reference(tile, i));
        }
      }
    }
  }

  /// Adds an accumulator's weights to the sums. The weights are passed as they are used, after rounding, so that the
  /// rounding errors cancel in the quotient.
  __device__ __forceinline__ void add(int tile, float w0, float w1, float w2, float w3) {
    constexpr bool kAlternate = Layout::head(1) == 1;
    const int set = Layout::set(tile);
    sum_[set][0] += w0 + (kAlternate ? w2 : w1);
    sum_[set][1] += (kAlternate ? w1 : w2) + w3;
  }

  /// Sums over the warp's tokens. Afterwards every lane that holds a query row has the row's total.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int head = 0; head < 2; ++head) {
#pragma unroll
        for (int distance = Layout::kNearest; distance < Layout::kBeyond; distance *= 2) {
          sum_[set][head] += __shfl_xor_sync(kFullWarp, sum_[set][head], distance);
        }
      }
    }
  }

  /// (reference exponent, sum of weights) of a query row of this lane; valid after finish().
  __device__ __forceinline__ float2 stats(int set, int head) const {
    return make_float2(reference_[set][head], sum_[set][head]);
  }

 private:
  /// Makes weights smaller when factors exceed the limit, so that the products stay below 2^15. With kAnyFactor, the
  /// first factors set the limit, whatever their size.
  __device__ __forceinline__ void lower_ceiling(float peak) {
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      peak = maximum(peak, __shfl_xor_sync(kFullWarp, peak, distance));
    }
    if (peak <= factor_limit_) return;
    constexpr int kLeast = -64;  // beyond this exponent weights would leave the range of float
    const int exponent = (kAnyFactor ? max(exponent_of(peak), kLeast) : exponent_of(peak)) + 1;
    factor_limit_ = power_of_two(exponent);
    bits_ = kWeightBits + kFactorBits - static_cast<float>(exponent);
  }

  __device__ __forceinline__ float reference(int tile, int i) const {
    return reference_[Layout::set(tile)][Layout::head(i)];
  }
  /// Ceiling of a reference exponent. Scores may be so large that adding kWeightBits does not change a float. The
  /// ceiling is therefore rounded down and the reference up, which keeps every weight at or below 2^kWeightBits.
  __device__ __forceinline__ float ceiling_of(float reference) const { return sum_rounded_down(reference, bits_); }
  __device__ __forceinline__ float ceiling(int tile, int i) const { return ceiling_of(reference(tile, i)); }

  /// Raises the reference of each query row whose scores exceed its ceiling, and calls rescale() with the factors
  /// 2^(old reference - new reference).
  template <int kSteps, class Rescale>
  __device__ __forceinline__ void raise(const float (&scores)[kSteps][kTiles][4], Rescale&& rescale) {
    Factors peaks;
#pragma unroll
    for (int set = 0; set < kSets; ++set) peaks[set][0] = peaks[set][1] = negative_infinity();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& peak = peaks[Layout::set(tile)][Layout::head(i)];
          if (Layout::has(i)) peak = maximum(peak, scores[step][tile][i]);
        }
      }
    }
    Factors factors;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int head = 0; head < 2; ++head) {
        float peak = peaks[set][head];
#pragma unroll
        for (int distance = Layout::kNearest; distance < Layout::kBeyond; distance *= 2) {
          peak = maximum(peak, __shfl_xor_sync(kFullWarp, peak, distance));
        }
        const float old = reference_[set][head];
        // A query row whose ceiling holds keeps it; its factor is exactly 1.
        const float raised = peak > ceiling_of(old) ? sum_rounded_up(peak, kSlack - bits_) : old;
        factors[set][head] = old == raised ? 1.f : exp2_fast(old - raised);
        reference_[set][head] = raised;
        if constexpr (kAddsWeights) sum_[set][head] *= factors[set][head];
      }
    }
    rescale(factors);
  }
  float bits_ = kWeightBits;
  float factor_limit_ = kAnyFactor ? 0.f : 8.f;  // 2^kFactorBits
  float reference_[kSets][2];
  float sum_[kSets][2];
};

}  // namespace cubit
