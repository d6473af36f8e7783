// Epilogues of GEMMs whose outputs do not have 16 bits. Interface of an epilogue: see gemm/epilogue.cuh, which has the
// formula too.
//
// IntegerOutput stores the sums themselves. ByteEpilogue quantises the result by one given scale.
#pragma once

#include "byte_gemm/arguments.h"
#include "core/copies.cuh"
#include "core/given_scale.cuh"
#include "core/types.cuh"
#include "gemm/activation_functions.cuh"

namespace cubit {

struct IntegerOutput {
  static constexpr bool kGated = false;

  static __device__ __forceinline__ void store(const GemmArguments& args, int row, int column, const float (&values)[4],
                                               const float (&)[4]) {
    const uint32 words[4] = {__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
                             __float_as_uint(values[3])};
    store_global(static_cast<char*>(args.output) + row * args.output_stride + 4 * static_cast<int64>(column), words);
  }
};

/// byte = round(result / output scale): see QuantisedBytes. `Element` is the type of bias and residual.
template <class Element, class Function, bool kIsGated, bool kBias, bool kResidual, class Output>
struct ByteEpilogue {
  static constexpr bool kGated = kIsGated;

  static __device__ __forceinline__ void store(const GemmArguments& args, int row, int column, const float (&values)[4],
                                               const float (&up_values)[4]) {
    const int64 element = 2 * static_cast<int64>(column);
    const char* const bias = static_cast<const char*>(args.bias) + element;
    float result[4];
    float up[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result[i] = values[i];
      up[i] = up_values[i];
    }
    if constexpr (kBias) add(bias, result);
    if constexpr (kBias && kGated) add(bias + args.n, up);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result[i] = Function::apply(result[i]);
      if constexpr (kGated) result[i] = __fmul_rn(result[i], up[i]);
    }
    if constexpr (kResidual)
      add(static_cast<const char*>(args.residual) + row * args.residual_stride + element, result);
    const float scale = *static_cast<const float*>(static_cast<const ByteGemmArguments&>(args).output_scale);
    *reinterpret_cast<uint32*>(static_cast<char*>(args.output) + row * args.output_stride + column) =
        QuantisedBytes<Output>(scale)(result);
  }

 private:
  static __device__ __forceinline__ void add(const char* src, float (&values)[4]) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(src);
    values[0] = __fadd_rn(values[0], Pair<Element>::low(pairs.x));
    values[1] = __fadd_rn(values[1], Pair<Element>::high(pairs.x));
    values[2] = __fadd_rn(values[2], Pair<Element>::low(pairs.y));
    values[3] = __fadd_rn(values[3], Pair<Element>::high(pairs.y));
  }
};

}  // namespace cubit
