// Epilogues of GEMMs whose outputs do not have 16 bits. Interface of an epilogue: see gemm/epilogue.cuh, which has the
// formula too.
//
// IntegerOutput stores the sums themselves. ByteEpilogue quantises the result by one given scale.
#pragma once

#include "byte_gemm/arguments.h"
#include "core/byte_codes.cuh"
#include "core/copies.cuh"
#include "core/quotient.cuh"
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

/// Range and special values of signed bytes. NaN becomes 0.
struct SignedByteOutput {
  using Code = Int8Code;
  static constexpr float kLowest = -128.f;
  static constexpr float kHighest = 127.f;
  static constexpr bool kHasNan = false;
};

/// Range and special values of e4m3. NaN and infinity become the NaN code. kConverts: see Fp8Code.
template <bool kConverts>
struct Fp8Output {
  using Code = Fp8Code<4, kConverts>;
  static constexpr float kLowest = -448.f;
  static constexpr float kHighest = 448.f;
  static constexpr bool kHasNan = true;
};

/// byte = round(result / output scale), half to even and saturated. A scale that is not from 2^-100 to 2^100 gives 0,
/// or the NaN code if there is one. `Element` is the type of bias and residual.
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
        quantise(result, scale);
  }

 private:
  static __device__ __forceinline__ void add(const char* src, float (&values)[4]) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(src);
    values[0] = __fadd_rn(values[0], Pair<Element>::low(pairs.x));
    values[1] = __fadd_rn(values[1], Pair<Element>::high(pairs.x));
    values[2] = __fadd_rn(values[2], Pair<Element>::low(pairs.y));
    values[3] = __fadd_rn(values[3], Pair<Element>::high(pairs.y));
  }

  static __device__ __forceinline__ uint32 quantise(const float (&values)[4], float scale) {
    constexpr uint32 kNanBytes = Output::kHasNan ? 0x7f7f7f7fu : 0u;
    if (!(scale >= 0x1p-100f && scale <= 0x1p100f)) return kNanBytes;
    const Quotient quotient(scale);
    float steps[4];
    uint32 special = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = values[i];
      const bool is_nan = x != x;
      steps[i] = is_nan ? 0.f : quotient(fminf(fmaxf(x, Output::kLowest * scale), Output::kHighest * scale));
      if (Output::kHasNan && !(fabsf(x) <= 0x1.fffffep127f)) special |= 0xffu << (8 * i);
    }
    return (Output::Code::encode(steps) & ~special) | (kNanBytes & special);
  }
};

}  // namespace cubit
