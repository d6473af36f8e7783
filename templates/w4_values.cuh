// Nibbles of a packed word less their zeros as 16-bit operands: exactly, in two instructions per pair.
//
// Or-ing a nibble q into the bits of a power of two adds it: fp16 0x6400 | q is 1024 + q, and 0x6400 | q << 4 is 1024 + 16 q;
// bf16 0x4300 | q is 128 + q. One packed addition, or for the shifted nibble a multiplication by 1/16 and an addition, takes
// off the power and the zero at once. Every result is a whole number from -16 to 15, so nothing is rounded.
//
// fp16 takes nibbles 1 and 5 where they lie, so of a word's four pairs only two need a shift, the same one. A bf16 has too few
// bits for that.
#pragma once

#include "types.cuh"

namespace cubit {

/// What W4Values::pair adds, for the zero of one column: beside nibbles of even and of odd index.
struct W4Zero {
  uint32 even;
  uint32 odd;
};

/// bits & mask | power, in one instruction for certain.
__device__ __forceinline__ uint32 insert(uint32 bits, uint32 mask, uint32 power) {
  uint32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(bits), "r"(mask), "r"(power));
  return result;
}

template <class Element>
struct W4Values;

template <>
struct W4Values<Half> {
  /// -(1024 + zero) and -(64 + zero), twice each, of zero = stored + kOffset, which is 0 to 16.
  template <int kOffset>
  static __device__ __forceinline__ W4Zero zero(uint32 stored) {
    return {0xe400e400u + kOffset * 0x00010001u + stored * 0x00010001u,
            0xd400d400u + kOffset * 0x00100010u + stored * 0x00100010u};
  }
  /// Nibbles kIndex and kIndex + 4 of a word, less their zero.
  template <int kIndex>
  static __device__ __forceinline__ uint32 pair(uint32 word, W4Zero zero) {
    constexpr uint32 kSixteenth = 0x2c002c00u;
    const uint32 near = kIndex < 2 ? word : word >> 8;
    uint32 result;
    if constexpr (kIndex % 2 == 0) {
      asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(insert(near, 0x000f000fu, 0x64006400u)), "r"(zero.even));
    } else {
      asm("fma.rn.f16x2 %0, %1, %2, %3;"
          : "=r"(result)
          : "r"(insert(near, 0x00f000f0u, 0x64006400u)), "r"(kSixteenth), "r"(zero.odd));
    }
    return result;
  }
};

template <>
struct W4Values<Bfloat16> {
  template <int kOffset>
  static __device__ __forceinline__ W4Zero zero(uint32 stored) {
    const uint32 sum = 0xc300c300u + kOffset * 0x00010001u + stored * 0x00010001u;
    return {sum, sum};
  }
  template <int kIndex>
  static __device__ __forceinline__ uint32 pair(uint32 word, W4Zero zero) {
    constexpr uint32 kOne = 0x3f803f80u;
    uint32 result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(insert(word >> (4 * kIndex), 0x000f000fu, 0x43004300u)), "r"(kOne), "r"(zero.even));
    return result;
  }
};

/// Of the four columns of a lane.
struct GroupZeros {
  W4Zero of[4];
};
struct GroupScales {
  float of[4];
};

/// Scales of four neighbouring columns, from the two words that hold them.
__device__ __forceinline__ void unpack_scales(GroupScales& scales, const uint32 (&pairs)[2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    scales.of[i] = i % 2 == 0 ? Pair<Half>::low(pairs[i / 2]) : Pair<Half>::high(pairs[i / 2]);
}

/// From the nibble of a zero, in the low bits of `zero`. kZeroOffset: what is stored without.
template <class Element, int kZeroOffset>
__device__ __forceinline__ W4Zero make_zero(uint32 zero) {
  return W4Values<Element>::template zero<kZeroOffset>(zero & 15u);
}

}  // namespace cubit
