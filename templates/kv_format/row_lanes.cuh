// Distribution of a cache row over the lanes of a warp: lane i of a row has channels 8i … 8i+7, which are 16 bytes of
// 16-bit values or one word of nibbles.
//
// The number of lanes per row is a power of two. Lanes beyond the row's last channel hold zeros and store nothing.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "kv_format/kv_cache_arguments.h"

namespace cubit {

inline constexpr int kLaneChannels = 8;

/// Lanes of a row with kChannels channels, where kChannels is a multiple of 8 up to 256.
template <int kChannels>
inline constexpr int kRowLanes = kChannels <= 64    ? 8
                                 : kChannels <= 128 ? 16
                                                    : 32;

/// Place of row number `index` in a tensor [batch, tokens, kv_heads].
struct RowPlace {
  int sequence;
  int token;
  int head;
};
__device__ __forceinline__ RowPlace row_place(uint32 index, DivideBy tokens, DivideBy kv_heads) {
  const uint32 outer = quotient(index, kv_heads);
  const uint32 sequence = quotient(outer, tokens);
  return {static_cast<int>(sequence), static_cast<int>(outer - sequence * tokens.divisor),
          static_cast<int>(index - outer * kv_heads.divisor)};
}

__device__ __forceinline__ const char* strided_row(const char* data, const long long (&strides)[3], RowPlace place) {
  // No index is negative. The unsigned product of 32 and 64 bits takes two instructions; a signed one takes four.
  return data + static_cast<uint32>(place.sequence) * strides[0] + static_cast<uint32>(place.token) * strides[1] +
         static_cast<uint32>(place.head) * strides[2];
}

/// Reduces a value with combine() over the kGroupLanes lanes of a group; every lane receives the result. All lanes of a
/// warp call the function together.
template <int kLanes, int kGroupLanes, class Value, class Combine>
__device__ __forceinline__ Value over_group(Value value, int lane, Combine combine) {
  if constexpr ((kGroupLanes & (kGroupLanes - 1)) == 0) {
#pragma unroll
    for (int distance = kGroupLanes / 2; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(kFullWarp, value, distance, kLanes));
    return value;
  } else {  // the first lane gathers the values and broadcasts the result
    const int first = lane / kGroupLanes * kGroupLanes;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      if (distance >= kGroupLanes) continue;
      const Value other = __shfl_sync(kFullWarp, value, lane + distance, kLanes);
      if (lane - first + distance < kGroupLanes) value = combine(value, other);
    }
    return __shfl_sync(kFullWarp, value, first, kLanes);
  }
}

/// Converts the pairs of 16-bit values in `words` to floats.
template <class Element>
__device__ __forceinline__ void widen(float (&dst)[kLaneChannels], const uint32 (&words)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    dst[2 * i] = Pair<Element>::low(words[i]);
    dst[2 * i + 1] = Pair<Element>::high(words[i]);
  }
}

template <class Element>
__device__ __forceinline__ void narrow(uint32 (&dst)[4], const float (&values)[kLaneChannels]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) dst[i] = Pair<Element>::pack(values[2 * i], values[2 * i + 1]);
}

__device__ __forceinline__ void store_global(void* dst, uint32 word) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(dst), "r"(word) : "memory");
}

}  // namespace cubit
