// Epilogue of a GEMM: turns fp32 values into stored output, of 16 bits unless the output type says otherwise.
//
//   output = function(product + bias) + residual
//   gated:  output = function(gate + gate bias) · (up + up bias) + residual
//
// In a gated epilogue the first half of the weight columns is the gate projection and the second half, from column
// args.n / 2 on, is the up projection.
//
// Interface of an epilogue: kGated, and store(args, row, column, values, up_values), which stores four neighbouring
// columns of one row. `column` counts output columns and is a multiple of 4. If the epilogue is gated, `values` are
// gate columns and `up_values` are the matching up-projection columns; otherwise `up_values` is unused. A column of the
// bias and of the residual has 2 bytes, so the biases of up-projection columns begin at byte args.n.
//
// Interface of an output type: store(args, row, column, values) stores four neighbouring outputs of one row.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/activation_functions.cuh"
#include "kernels/gemm/gemm_arguments.h"
#include "weight_format/fused_gemm_arguments.h"

namespace cubit {

/// Finds the biases of neighbouring columns of the weights. One tensor has the biases of all columns.
struct OneBias {
  static __device__ __forceinline__ const char* at(const GemmArguments& args, int64 byte) {
    return static_cast<const char*>(args.bias) + byte;
  }
};

/// Finds them where each layer has a tensor of biases. `args` are FusedGemmArguments.
struct FusedBias {
  static __device__ __forceinline__ const char* at(const GemmArguments& args, int64 byte) {
    const auto& [second, third] = static_cast<const FusedGemmArguments&>(args).more;
    const void* bias = args.bias;
    int first = 0;
    if (byte >= 2 * static_cast<int64>(second.first_column)) {
      bias = second.bias;
      first = second.first_column;
    }
    if (byte >= 2 * static_cast<int64>(third.first_column)) {
      bias = third.bias;
      first = third.first_column;
    }
    return static_cast<const char*>(bias) + (byte - 2 * static_cast<int64>(first));
  }
};

/// Outputs of 16 bits.
template <class Element>
struct HalfOutputs {
  static __device__ __forceinline__ void store(const GemmArguments& args, int row, int column,
                                               const float (&values)[4]) {
    char* const dst = static_cast<char*>(args.output) + row * args.output_stride + 2 * static_cast<int64>(column);
    store_global<8>(dst, Pair<Element>::pack(values[0], values[1]), Pair<Element>::pack(values[2], values[3]));
  }
};

/// Stores integer sums, whose bits are in the floats: see IntegerSums.
struct IntegerOutput {
  static constexpr bool kGated = false;

  static __device__ __forceinline__ void store(const GemmArguments& args, int row, int column, const float (&values)[4],
                                               const float (&)[4]) {
    const uint32 words[4] = {__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
                             __float_as_uint(values[3])};
    store_global(static_cast<char*>(args.output) + row * args.output_stride + 4 * static_cast<int64>(column), words);
  }
};

/// `Element` is the type of bias and residual.
template <class Element, class Function, bool kIsGated, bool kBias, bool kResidual, class Bias = OneBias,
          class Output = HalfOutputs<Element>>
struct GemmEpilogue {
  static constexpr bool kGated = kIsGated;

  static __device__ __forceinline__ void store(const GemmArguments& args, int row, int column, const float (&values)[4],
                                               const float (&up_values)[4]) {
    const int64 byte = 2 * static_cast<int64>(column);
    float result[4];
    float up[4];
    add_bias(args, byte, values, result);
    if constexpr (kGated) add_bias(args, byte + args.n, up_values, up);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result[i] = Function::apply(result[i]);
      if constexpr (kGated) result[i] *= up[i];
    }
    if constexpr (kResidual)
      add_residual(static_cast<const char*>(args.residual) + row * args.residual_stride + byte, result);
    Output::store(args, row, column, result);
  }

 private:
  static __device__ __forceinline__ void add_bias(const GemmArguments& args, int64 byte, const float (&values)[4],
                                                  float (&result)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) result[i] = values[i];
    if constexpr (kBias) add(Bias::at(args, byte), result);
  }

  /// Uses an ordinary load instead of a read-only one, because the residual may be the output itself.
  static __device__ __forceinline__ void add_residual(const char* src, float (&values)[4]) {
    const float2 words = *reinterpret_cast<const float2*>(src);
    const uint32 pairs[2] = {__float_as_uint(words.x), __float_as_uint(words.y)};
    add_pairs(pairs, values);
  }

  static __device__ __forceinline__ void add(const char* src, float (&values)[4]) {
    uint32 pairs[2];
    load_global<2, 8>(pairs, src);
    add_pairs(pairs, values);
  }

  static __device__ __forceinline__ void add_pairs(const uint32 (&pairs)[2], float (&values)[4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      values[2 * i] += Pair<Element>::low(pairs[i]);
      values[2 * i + 1] += Pair<Element>::high(pairs[i]);
    }
  }
};

}  // namespace cubit
