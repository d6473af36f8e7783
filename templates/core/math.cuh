// Float arithmetic for the softmax: base-2 exponentials and logarithms, and powers of two built from bits.
#pragma once

#include "core/types.cuh"

namespace cubit {

inline constexpr float kLn2 = 0.693147180559945309f;
inline constexpr float kLog2e = 1.44269504088896341f;

/// 2^x with relative error 2^-22 (PTX ISA, "ex2"). Subnormal results are flushed to zero, and 2^-inf is 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// log2(x) for x > 0. The absolute error is 2^-22 for x from 0.5 to 2; for all other x the relative error is 2^-22 (PTX
/// ISA, "lg2"). A subnormal x counts as 0, and log2(0) is minus infinity.
__device__ __forceinline__ float log2_fast(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float maximum(float a, float b) { return fmaxf(a, b); }

/// The maximum, but NaN if a or b is NaN.
__device__ __forceinline__ float larger_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
#else
  return a > b || a != a ? a : b;
#endif
}

/// The maximum of two values that are not negative, but NaN if a or b is NaN.
__device__ __forceinline__ float larger_magnitude_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  return larger_or_nan(a, b);
#else
  return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));  // the bits of NaN compare as the largest
#endif
}

__device__ __forceinline__ float quiet_nan() { return __uint_as_float(0x7fc00000u); }
/// Whether x is neither an infinity nor NaN.
__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < __uint_as_float(0x7f800000u); }

/// a + b, rounded toward minus infinity (first function) or toward plus infinity (second function).
__device__ __forceinline__ float sum_rounded_down(float a, float b) {
  float result;
  asm("add.rm.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float sum_rounded_up(float a, float b) {
  float result;
  asm("add.rp.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xff800000u); }
/// Initial value of a running maximum. The value is finite because minus infinity minus itself is NaN.
constexpr float kBelowEveryScore = -3e38f;

/// 2^exponent, for an exponent in -126 … 127.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32>(exponent + 127) << 23);
}

/// 1 / x with relative error 2^-23 (PTX ISA, "rcp"); x and 1 / x must be normal numbers.
__device__ __forceinline__ float reciprocal_fast(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// floor(log2(x)) for a normal positive x; -127 for zero and for subnormals.
__device__ __forceinline__ int exponent_of(float x) { return static_cast<int>(__float_as_uint(x) >> 23 & 255u) - 127; }

}  // namespace cubit
