// Channels of a row in one thread: kChannels values of type Element, 8 or 16 bytes, and their conversion to floats.
//
// The loads are ordinary loads and not loads of read-only memory, because a result may overwrite its own input.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, cvt).
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Loads kWords consecutive words of global memory; the address must be aligned to their size.
template <int kWords>
__device__ __forceinline__ void load_words(uint32 (&dst)[kWords], const char* src) {
  static_assert(kWords == 2 || kWords == 4);
  if constexpr (kWords == 4) {
    asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(dst[0]), "=r"(dst[1]), "=r"(dst[2]), "=r"(dst[3])
                 : "l"(src));
  } else {
    asm volatile("ld.global.v2.b32 {%0,%1}, [%2];" : "=r"(dst[0]), "=r"(dst[1]) : "l"(src));
  }
}

template <int kWords>
__device__ __forceinline__ void store_words(char* dst, const uint32 (&words)[kWords]) {
  static_assert(kWords == 2 || kWords == 4);
  if constexpr (kWords == 4) {
    asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(dst), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  } else {
    asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::"l"(dst), "r"(words[0]), "r"(words[1]) : "memory");
  }
}

/// Channels of a 16-bit type, two in a word.
template <class Element, int kChannels>
struct LaneChannels {
  static constexpr int kWords = kChannels / 2;
  static constexpr int kBytes = 4 * kWords;
  static __device__ __forceinline__ void widen(float (&dst)[kChannels], const uint32 (&words)[kWords]) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      dst[2 * i] = Pair<Element>::low(words[i]);
      dst[2 * i + 1] = Pair<Element>::high(words[i]);
    }
  }
  /// Rounds to nearest even.
  static __device__ __forceinline__ void narrow(uint32 (&dst)[kWords], const float (&values)[kChannels]) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) dst[i] = Pair<Element>::pack(values[2 * i], values[2 * i + 1]);
  }
};

template <int kChannels>
struct LaneChannels<float, kChannels> {
  static constexpr int kWords = kChannels;
  static constexpr int kBytes = 4 * kWords;
  static __device__ __forceinline__ void widen(float (&dst)[kChannels], const uint32 (&words)[kWords]) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) dst[i] = __uint_as_float(words[i]);
  }
  static __device__ __forceinline__ void narrow(uint32 (&dst)[kWords], const float (&values)[kChannels]) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) dst[i] = __float_as_uint(values[i]);
  }
};

}  // namespace cubit
