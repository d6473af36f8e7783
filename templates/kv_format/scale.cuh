// Storage of cache scales in fp32 or fp16.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"

namespace cubit {

/// Loads, stores and rounding of a scale. rounded(scale) is the scale as the type can hold it: saturated to the type's
/// largest number and rounded to nearest even. The scale that is passed to store() must be a result of rounded(), or
/// quiet_nan().
template <class Stored>
struct Scale;

template <>
struct Scale<float> {
  static constexpr int kBytes = 4;
  static __device__ __forceinline__ float rounded(float scale) { return scale; }
  static __device__ __forceinline__ float load(const char* src) {
    uint32 word[1];
    load_global<1, 4>(word, src);
    return __uint_as_float(word[0]);
  }
  static __device__ __forceinline__ void store(char* dst, float scale) {
    asm volatile("st.global.f32 [%0], %1;" ::"l"(dst), "f"(scale) : "memory");
  }
};

template <>
struct Scale<Half> {
  static constexpr int kBytes = 2;
  static __device__ __forceinline__ float rounded(float scale) {
    return Pair<Half>::low(Pair<Half>::pack(fminf(scale, 65504.f), 0.f));
  }
  static __device__ __forceinline__ float load(const char* src) {
    uint16 bits;
    asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(bits) : "l"(src));
    return Pair<Half>::low(bits);
  }
  static __device__ __forceinline__ void store(char* dst, float scale) {
    // A NaN is stored as 0x7e00; the conversion makes 0x7fff.
    const uint16 bits = static_cast<uint16>(min(Pair<Half>::pack(scale, 0.f), 0x7e00u));
    asm volatile("st.global.b16 [%0], %1;" ::"l"(dst), "h"(bits) : "memory");
  }
};

}  // namespace cubit
