// Activation functions of the GEMM epilogue. Each is a type with apply(x); a `using` in plan.cuh chooses one.
#pragma once

#include "core/math.cuh"

namespace cubit {

/// 1 / (1 + e^-x). For large |x| the result is exactly 0 or 1, because float cannot represent the difference.
__device__ __forceinline__ float logistic(float x) {
  constexpr float kLog2e = 1.44269504088896341f;
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.f + exp2_fast(-kLog2e * x)));
  return result;
}

struct Identity {
  static __device__ __forceinline__ float apply(float x) { return x; }
};

/// max(x, 0) as PyTorch defines it: NaN stays NaN.
struct Relu {
  static __device__ __forceinline__ float apply(float x) { return x < 0.f ? 0.f : x; }
};

/// x / (1 + e^-x)
struct Silu {
  static __device__ __forceinline__ float apply(float x) { return x * logistic(x); }
};

/// x · (1 + erf(x / sqrt(2))) / 2. With z = |x| / sqrt(2), e^-z² · terms is erfc(z) within 1.5e-7 (Abramowitz and
/// Stegun, 7.1.26). The formula has no branch and no predicate. erff() has both, and takes twice as many instructions.
struct GeluExact {
  static __device__ __forceinline__ float apply(float x) {
    constexpr float kHalfLog2e = 0.72134752044448170f;
    float t;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(1.f + 0.3275911f * 0.707106781186547524f * fabsf(x)));
    const float terms =
        t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float half = 0.5f * terms * exp2_fast(-kHalfLog2e * x * x);
    return x * (0.5f + copysignf(0.5f - half, x));
  }
};

/// x · (1 + tanh(sqrt(2 / pi) · (x + 0.044715 x^3))) / 2. The identity (1 + tanh(u)) / 2 = 1 / (1 + e^-2u) turns the
/// tanh into a logistic function.
struct GeluTanh {
  static __device__ __forceinline__ float apply(float x) {
    constexpr float kTwice = 1.59576912160573071f;
    return x * logistic(kTwice * (x + 0.044715f * x * x * x));
  }
};

}  // namespace cubit
