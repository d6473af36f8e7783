// Turns int8 codes or int32 sums into 16-bit values: function(code · scale · weight scale + bias) + residual.
//
// Each thread has one vector of eight columns in up to four rows. It loads the scales of its columns and the bias once,
// then the vectors of all its rows, and then computes and stores row by row. Neighbouring threads have neighbouring
// columns, and a thread's eight results are one store of 16 bytes, so that a warp's stores fill whole sectors. The
// kernel runs on all architectures.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, cvt), "Floating Point Instructions" (ex2, rcp).
#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "kernels/quantisation/dequantize_arguments.h"

namespace cubit {

inline constexpr int kColumns = plan::Codes::kColumns;
inline constexpr int kPairs = kColumns / 2;  // words of 16-bit values

__device__ __forceinline__ float load_scale(const char* scales, int64 index) {
  uint32 word[1];
  load_global<1, 4>(word, scales + 4 * index);
  return __uint_as_float(word[0]);
}

/// What the rows of a thread share: scales of columns and the bias.
struct ColumnTerms {
  uint32 scales[kColumns];
  uint32 bias[kPairs];

  __device__ __forceinline__ ColumnTerms(const DequantizeArguments& args, int64 column) {
    if constexpr (plan::kScalesChannels) load_global<kColumns, 16>(scales, args.weight_scale + 4 * column);
    if constexpr (plan::kHasWeightScale && !plan::kScalesChannels)
      scales[0] = __float_as_uint(load_scale(args.weight_scale, 0));
    if constexpr (plan::kAddsBias) load_global<kPairs, 16>(bias, args.bias + 2 * column);
  }
  /// function(code · scale · weight scale + bias) of column i.
  __device__ __forceinline__ float apply(int i, float code, float scale) const {
    float value = code * scale;
    if constexpr (plan::kHasWeightScale) value *= __uint_as_float(scales[plan::kScalesChannels ? i : 0]);
    if constexpr (plan::kAddsBias) value += of_pair(bias, i);
    return plan::Function::apply(value);
  }
  static __device__ __forceinline__ float of_pair(const uint32 (&pairs)[kPairs], int i) {
    return i % 2 == 0 ? Pair<plan::Output>::low(pairs[i / 2]) : Pair<plan::Output>::high(pairs[i / 2]);
  }
};

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kThreads)
    dequantize(const __grid_constant__ cubit::DequantizeArguments args) {
  using namespace cubit;
  const int64 index = static_cast<int64>(blockIdx.x) * plan::kThreads + threadIdx.x;
  const uint32 vectors = static_cast<uint32>(args.vectors);
  const int64 first_row = static_cast<int64>(static_cast<uint32>(index) / vectors) * args.rows_per_thread;
  const int64 column = static_cast<int64>(static_cast<uint32>(index) % vectors) * kColumns;
  const auto exists = [&](int i) { return i < args.rows_per_thread && first_row + i < args.rows; };

  const ColumnTerms terms(args, column);
  plan::Codes codes[kDequantisedRows];
  uint32 residual[kDequantisedRows][kPairs];
  float scales[kDequantisedRows];
#pragma unroll
  for (int i = 0; i < kDequantisedRows; ++i) {
    const int64 row = first_row + i;
    const int64 first_code = plan::Layout::offset(args.input_stride, row, static_cast<int>(column));
    codes[i].load(args.input + plan::Codes::kBytes * first_code, exists(i));
    if constexpr (plan::kAddsResidual)
      load_global<kPairs, 16>(residual[i], args.residual + row * args.residual_stride + 2 * column, exists(i));
    scales[i] = exists(i) ? load_scale(args.scale, plan::kScalesTokens ? row : 0) : 0.f;
  }
#pragma unroll
  for (int i = 0; i < kDequantisedRows; ++i) {
    if (!exists(i)) continue;
    const auto value = [&](int n) {
      const float result = terms.apply(n, codes[i][n], scales[i]);
      if constexpr (plan::kAddsResidual) return result + ColumnTerms::of_pair(residual[i], n);
      return result;
    };
    char* const dst = args.output + (first_row + i) * args.output_stride + 2 * column;
    uint32 words[kPairs];
#pragma unroll
    for (int j = 0; j < kPairs; ++j) words[j] = Pair<plan::Output>::pack(value(2 * j), value(2 * j + 1));
    store_global(dst, words);
  }
}
