// The running softmax of one warp: scores come in tile by tile, weights go out, old results are rescaled when needed.
//
// A tile is 16 tokens × 8 heads in the accumulator layout of mma.cuh, so lane (r, c) sees heads 2c and 2c+1 and tokens
// r and r+8. Scores are in base 2. A weight is 2^(score - reference), where reference is a ceiling on the scores seen,
// less kWeightBits: weights lie in (0, 2^kWeightBits], far from the subnormals of fp16 for everything that matters.
// The ceiling is set kSlack above the maximum, so it moves rarely; only then are sums and accumulators rescaled.
#pragma once

#include "math.cuh"
#include "types.cuh"

namespace cubit {

template <int kHeadTiles>
class OnlineSoftmax {
 public:
  /// One factor per head: [head tile][head of the pair].
  using Factors = float[kHeadTiles][2];

  static constexpr float kWeightBits = 12.f;
  static constexpr float kSlack = 4.f;

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      reference_[tile][0] = reference_[tile][1] = negative_infinity();
      sum_[tile][0] = sum_[tile][1] = 0.f;
    }
  }

  /// Turns scores into weights in place. Where the ceiling must move, or some lane's `above` is set, calls
  /// rescale(factors): what has been accumulated with the old weights is to be multiplied by
  /// factors[tile][head of the pair].
  template <class Rescale>
  __device__ __forceinline__ void weigh(float (&scores)[kHeadTiles][4], bool above, Rescale&& rescale) {
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) above |= scores[tile][i] > reference_[tile][i & 1] + kWeightBits;
    }
    if (__any_sync(kFullWarp, above)) raise(scores, rescale);
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] = exp2_fast(scores[tile][i] - reference_[tile][i & 1]);
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
  template <class Rescale>
  __device__ __forceinline__ void raise(const float (&scores)[kHeadTiles][4], Rescale&& rescale) {
    Factors factors;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int head = 0; head < 2; ++head) {
        float peak = maximum(scores[tile][head], scores[tile][head + 2]);
#pragma unroll
        for (int distance = 4; distance < kWarpSize; distance *= 2) {
          peak = maximum(peak, __shfl_xor_sync(kFullWarp, peak, distance));
        }
        const float old = reference_[tile][head];
        // A head whose ceiling holds keeps it: its factor is exactly 1.
        const float raised = peak > old + kWeightBits ? peak + (kSlack - kWeightBits) : old;
        factors[tile][head] = old == raised ? 1.f : exp2_fast(old - raised);
        reference_[tile][head] = raised;
        sum_[tile][head] *= factors[tile][head];
      }
    }
    rescale(factors);
  }

  float reference_[kHeadTiles][2];
  float sum_[kHeadTiles][2];
};

}  // namespace cubit
