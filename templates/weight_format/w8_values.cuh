// Exact conversion of packed 8-bit weights into 16-bit operands: byte minus zero.
//
// Inserting a byte q into the low byte of a power of two adds q. In fp16, 0x6400 | q is 1024 + q, and one packed
// addition subtracts 1024 and the zero. A bf16 has too few significand bits, but a float has enough: 0x4b000000 | q is
// 2^23 + q. Subtracting 2^23 and the zero leaves an integer from -256 to 255. The upper 16 bits of this float are the
// same integer as a bf16, without rounding, because the integer has at most 8 significant bits.
#pragma once

#include "core/types.cuh"

namespace cubit {

template <class Element>
struct W8Values;

template <>
struct W8Values<Half> {
  /// -(1024 + zero) in both halves, with zero = stored + kOffset from 0 to 256.
  template <int kOffset>
  static __device__ __forceinline__ uint32 zero(uint32 stored) {
    return 0xe400e400u + kOffset * 0x00010001u + stored * 0x00010001u;
  }
  /// Bytes 2 kIndex and 2 kIndex + 1 of a word, minus their zero.
  template <int kIndex>
  static __device__ __forceinline__ uint32 pair(uint32 word, uint32 zero) {
    uint32 result;
    asm("add.rn.f16x2 %0, %1, %2;"
        : "=r"(result)
        : "r"(__byte_perm(word, 0x64646464u, kIndex == 0 ? 0x4140 : 0x4342)), "r"(zero));
    return result;
  }
};

template <>
struct W8Values<Bfloat16> {
  /// -(2^23 + zero) as the bits of a float.
  template <int kOffset>
  static __device__ __forceinline__ uint32 zero(uint32 stored) {
    return 0xcb000000u + kOffset + stored;
  }
  template <int kIndex>
  static __device__ __forceinline__ uint32 pair(uint32 word, uint32 zero) {
    return __byte_perm(value<2 * kIndex>(word, zero), value<2 * kIndex + 1>(word, zero), 0x7632);
  }

 private:
  template <int kByte>
  static __device__ __forceinline__ uint32 value(uint32 word, uint32 zero) {
    return __float_as_uint(__uint_as_float(__byte_perm(word, 0x4b000000u, 0x7540 + kByte)) + __uint_as_float(zero));
  }
};

/// Addends for the zeros of a lane's four columns.
struct ByteZeros {
  uint32 of[4];
};

}  // namespace cubit
