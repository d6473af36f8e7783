// Integers and 16-bit floats for device code, written over PTX so that no CUDA toolkit header is needed.
#pragma once

namespace cubit {

using int64 = long long;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

static_assert(sizeof(int64) == 8 && sizeof(uint32) == 4 && sizeof(uint16) == 2);

/// IEEE binary16 and bfloat16 as storage types. Arithmetic happens in float, or on packed pairs in tensor cores.
struct Half {
  uint16 bits;
};
struct Bfloat16 {
  uint16 bits;
};

/// Operations on two 16-bit values packed in a register, with the first value in the low half. Packing rounds to
/// nearest even; sm_75 has no instruction that packs two values at once.
template <class T>
struct Pair;

/// True if the architecture compares two 16-bit values in one instruction: Pair::smaller() and Pair::larger().
#if __CUDA_ARCH__ >= 800
inline constexpr bool kComparesPairs = true;
#else
inline constexpr bool kComparesPairs = false;
#endif

template <>
struct Pair<Half> {
  static __device__ __forceinline__ uint32 pack(float low, float high) {
#if __CUDA_ARCH__ >= 800
    uint32 result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
#else
    return round(low) | round(high) << 16;
#endif
  }
  static __device__ __forceinline__ float low(uint32 pair) { return widen(static_cast<uint16>(pair)); }
  static __device__ __forceinline__ float high(uint32 pair) { return widen(static_cast<uint16>(pair >> 16)); }
  /// Elementwise minimum (min(a0, b0), min(a1, b1)) and maximum, both exact. Of a number and a NaN the result is the
  /// number. The functions exist only if kComparesPairs is true.
  static __device__ __forceinline__ uint32 smaller(uint32 a, uint32 b) {
    asm("min.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  static __device__ __forceinline__ uint32 larger(uint32 a, uint32 b) {
    asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  /// The same, but NaN if a or b is NaN.
  static __device__ __forceinline__ uint32 smaller_or_nan(uint32 a, uint32 b) {
    asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  static __device__ __forceinline__ uint32 larger_or_nan(uint32 a, uint32 b) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  /// (max(|a0|, |b0|), max(|a1|, |b1|)); both halves of `a` must be non-negative. Of a number and a NaN the result is
  /// the number.
  static __device__ __forceinline__ uint32 larger_magnitudes(uint32 a, uint32 b) {
#if __CUDA_ARCH__ >= 800
    return larger(a, b & 0x7fff7fffu);
#else
    return larger_magnitude(a & 0xffffu, b & 0x7fffu) | larger_magnitude(a >> 16, b >> 16 & 0x7fffu) << 16;
#endif
  }
  static __device__ __forceinline__ uint32 difference(uint32 a, uint32 b) {
    uint32 result;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
  static __device__ __forceinline__ uint32 product(uint32 a, uint32 b) {
    uint32 result;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
  /// Multiplies both halves of `pair` by the low half of `factors`.
  static __device__ __forceinline__ uint32 multiply_by_low(uint32 pair, uint32 factors) {
    uint32 result;
    asm("{\n"
        ".reg .b16 low, high;\n"
        ".reg .b32 twice;\n"
        "mov.b32 {low, high}, %2;\n"
        "mov.b32 twice, {low, low};\n"
        "mul.rn.f16x2 %0, %1, twice;\n"
        "}"
        : "=r"(result)
        : "r"(pair), "r"(factors));
    return result;
  }

 private:
  static __device__ __forceinline__ float widen(uint16 bits) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
    return result;
  }
  /// Maximum of two non-negative numbers. A NaN compares less than any number, as in the max instruction.
  static __device__ __forceinline__ uint32 larger_magnitude(uint32 a, uint32 b) {
    constexpr uint32 kInfinity = 0x7c00u;
    return b <= kInfinity && (b > a || a > kInfinity) ? b : a;
  }
  static __device__ __forceinline__ uint32 round(float value) {
    uint16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
    return result;
  }
};

template <>
struct Pair<Bfloat16> {
  static __device__ __forceinline__ uint32 pack(float low, float high) {
#if __CUDA_ARCH__ >= 800
    uint32 result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
#else
    return round(low) | round(high) << 16;
#endif
  }
  static __device__ __forceinline__ float low(uint32 pair) { return __uint_as_float(pair << 16); }
  static __device__ __forceinline__ float high(uint32 pair) { return __uint_as_float(pair & 0xffff0000u); }
  static __device__ __forceinline__ uint32 smaller(uint32 a, uint32 b) {
    asm("min.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  static __device__ __forceinline__ uint32 larger(uint32 a, uint32 b) {
    asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  static __device__ __forceinline__ uint32 smaller_or_nan(uint32 a, uint32 b) {
    asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  static __device__ __forceinline__ uint32 larger_or_nan(uint32 a, uint32 b) {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
  static __device__ __forceinline__ uint32 larger_magnitudes(uint32 a, uint32 b) { return larger(a, b & 0x7fff7fffu); }

 private:
  /// Every NaN becomes the canonical NaN that the conversion instruction produces.
  static __device__ __forceinline__ uint32 round(float value) {
    const uint32 bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  }
};

template <class First, class Second>
inline constexpr bool kSameType = false;
template <class Type>
inline constexpr bool kSameType<Type, Type> = true;

inline constexpr uint32 kFullWarp = 0xffffffffu;
inline constexpr int kWarpSize = 32;

/// threadIdx.x, read once. The compiler would read the special register again in every block of a loop that uses
/// threadIdx.x.
__device__ __forceinline__ uint32 thread_index() {
  uint32 result;
  asm("mov.u32 %0, %%tid.x;" : "=r"(result));
  return result;
}

/// Lane and warp index of this thread. The remainder and the quotient are unsigned: the compiler then knows the range,
/// and divisions by powers of two stay single instructions.
__device__ __forceinline__ int lane_index() { return static_cast<int>(thread_index() % 32u); }
__device__ __forceinline__ int warp_index() { return static_cast<int>(thread_index() / 32u); }

/// Returns `value` unchanged, but hides its origin from the compiler, so that everything derived from the result is
/// computed again at each call. The recomputation trades instructions for registers in a loop with many invariants.
__device__ __forceinline__ int recomputed(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// Lane index; if kRecomputed is true, everything derived from the result is computed again at each call.
template <bool kRecomputed>
__device__ __forceinline__ int lane_index() {
  return kRecomputed ? recomputed(lane_index()) : lane_index();
}

/// A select instruction in any case. From several conditional expressions the compiler would make branches with the
/// shuffles in both of them.
__device__ __forceinline__ float select_value(uint32 condition, float then, float otherwise) {
  float result;
  asm("{\n"
      ".reg .pred chosen;\n"
      "setp.ne.u32 chosen, %3, 0;\n"
      "selp.f32 %0, %1, %2, chosen;\n"
      "}"
      : "=f"(result)
      : "f"(then), "f"(otherwise), "r"(condition));
  return result;
}

/// Returns `value` unchanged and forces the compiler to compute `value` here, once. Without the asm statement the
/// compiler computes cheap invariants again inside a loop, once per branch that uses them.
__device__ __forceinline__ uint32 settled(uint32 value) {
  asm volatile("" : "+r"(value));
  return value;
}
__device__ __forceinline__ const char* settled(const char* value) {
  asm volatile("" : "+l"(value));
  return value;
}

}  // namespace cubit
