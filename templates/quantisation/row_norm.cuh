// Normalisation of a row in registers: RMSNorm and LayerNorm.
#pragma once

#include "core/types.cuh"
#include "quantisation/row_threads.cuh"
#include "quantisation/row_values.cuh"

namespace cubit {

/// Statistics of a row: the normalised value is (x - mean) · factor.
struct RowStatistics {
  float mean;
  float factor;
};

/// 1 / sqrt(sum / columns + epsilon). A sum that is not finite gives NaN, so that it stays visible in the result.
__device__ __forceinline__ float inverse_root(float sum, int columns, float epsilon) {
  float root;
  asm("sqrt.rn.f32 %0, %1;" : "=f"(root) : "f"(__fdiv_rn(sum, static_cast<float>(columns)) + epsilon));
  return __fdiv_rn(1.f, root) + (sum - sum);
}

/// The sum of (x - mean)² over a row.
template <class Element>
__device__ __forceinline__ float sum_of_squares(const RowValues<Element>& row, float mean, const RowThreads& threads,
                                                RowExchange& exchange) {
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kRowVectors; ++i) {
    if (!threads.has(i)) continue;
#pragma unroll
    for (int column = 0; column < kVectorColumns; ++column) {
      const float difference = row.vectors[i][column] - mean;
      sum = __fmaf_rn(difference, difference, sum);
    }
  }
  return threads.sum(sum, exchange);
}

/// factor = 1 / sqrt(mean of x² + epsilon); no mean is subtracted.
struct RmsNorm {
  template <class Element>
  static __device__ __forceinline__ RowStatistics of(const RowValues<Element>& row, const RowThreads& threads,
                                                     float epsilon) {
    __shared__ RowExchange squares;
    return {0.f, inverse_root(sum_of_squares(row, 0.f, threads, squares), threads.columns(), epsilon)};
  }
};

/// factor = 1 / sqrt(mean of (x - mean)² + epsilon). The sum of a row is scaled by a power of two, so that it does not
/// overflow: the quotient of two scaled numbers is the mean.
struct LayerNorm {
  static constexpr float kSumScale = 1.f / (kRowVectors * kVectorColumns * kMostRowThreads);

  template <class Element>
  static __device__ __forceinline__ RowStatistics of(const RowValues<Element>& row, const RowThreads& threads,
                                                     float epsilon) {
    __shared__ RowExchange sums;
    __shared__ RowExchange squares;
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < kRowVectors; ++i) {
#pragma unroll
      for (int column = 0; column < kVectorColumns; ++column) sum = __fmaf_rn(row.vectors[i][column], kSumScale, sum);
    }
    const float mean = __fdiv_rn(threads.sum(sum, sums), static_cast<float>(threads.columns()) * kSumScale);
    return {mean, inverse_root(sum_of_squares(row, mean, threads, squares), threads.columns(), epsilon)};
  }
};

/// Replaces x by (x - mean) · factor · weight + bias, rounded to 16 bits.
template <bool kAddsBias, class Element>
__device__ __forceinline__ void normalise_row(RowValues<Element>& row, const RowStatistics& statistics,
                                              const char* weight, const char* bias, const RowThreads& threads) {
#pragma unroll
  for (int i = 0; i < kRowVectors; ++i) {
    if (!threads.has(i)) continue;
    RowVector<Element> weights;
    weights.load(weight + 2 * threads.column(i), true);
    RowVector<Element> biases;
    if constexpr (kAddsBias) biases.load(bias + 2 * threads.column(i), true);
    const auto normalised = [&](int column) {
      const float value = (row.vectors[i][column] - statistics.mean) * statistics.factor * weights[column];
      if constexpr (kAddsBias) return value + biases[column];
      return value;
    };
#pragma unroll
    for (int word = 0; word < kVectorWords; ++word)
      row.vectors[i].words[word] = Pair<Element>::pack(normalised(2 * word), normalised(2 * word + 1));
  }
}

}  // namespace cubit
