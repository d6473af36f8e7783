// Nibbles of a packed word less their zeros as 16-bit operands: exactly, in two instructions per pair.
//
// Or-ing a nibble q into the bits of a power of two adds it: fp16 0x6400 | q is 1024 + q, and 0x6400 | q << 4 is 1024 +
// 16 q; bf16 0x4300 | q is 128 + q. One packed addition, or for the shifted nibble a multiplication by 1/16 and an
// addition, takes off the power and the zero at once. Every result is a whole number from -16 to 15, so nothing is
// rounded. What is added for a zero is made of its own nibble in the same way, for fp16 of two columns at a time.
//
// fp16 takes nibbles 1 and 5 where they lie, so of a word's four pairs only two need a shift, the same one. A bf16 has
// too few bits for that.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// What W4Values::pair adds for the zeros of the four columns of a lane. fp16: two columns per register, beside nibbles
/// of even index of[0] (columns 0 and 1) and of[1] (2 and 3), of odd index of[2] and of[3]; bf16, and number formats
/// with pairs of their own: a register per column.
struct GroupZeros {
  uint32 of[4];
};

/// bits & mask | power, in one instruction for certain.
__device__ __forceinline__ uint32 insert(uint32 bits, uint32 mask, uint32 power) {
  uint32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(bits), "r"(mask), "r"(power));
  return result;
}

/// One half of a register, twice. What takes it as an operand does so by a modifier, so this is no instruction; of a
/// permutation the compiler makes one.
template <int kHalf>
__device__ __forceinline__ uint32 half_twice(uint32 pair) {
  uint32 result;
  if constexpr (kHalf == 0) {
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {low, low};\n}" : "=r"(result) : "r"(pair));
  } else {
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {high, high};\n}" : "=r"(result) : "r"(pair));
  }
  return result;
}

template <class Element>
struct W4Values;

template <>
struct W4Values<Half> {
  /// Of four nibbles, which are in both halves of `nibbles`, with zeros = nibble + kOffset, which are 0 to 16: -(1024 +
  /// zero) and -(64 + zero). From 1024 + the first and 1024 + 16 times the second nibble in a pair, exactly.
  template <int kOffset>
  static __device__ __forceinline__ GroupZeros zeros(uint32 nibbles) {
    static_assert(kOffset == 0 || kOffset == 1);
    constexpr uint32 kMinusOneAndSixteenth = 0xac00bc00u;
    constexpr uint32 kLess = kOffset == 0 ? 0xe3800000u : 0xe382bc00u;  // -960 - kOffset and -kOffset
    constexpr uint32 k960 = 0x63806380u;
    GroupZeros result;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32 pair = insert(nibbles >> (8 * i), 0x00f0000fu, 0x64006400u);
      asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result.of[i]) : "r"(pair), "r"(kMinusOneAndSixteenth), "r"(kLess));
      asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result.of[2 + i]) : "r"(result.of[i]), "r"(k960));
    }
    return result;
  }
  /// The same where every zero is kZero.
  template <int kZero>
  static __device__ __forceinline__ GroupZeros zeros() {
    constexpr uint32 kEven = 0xe400e400u + kZero * 0x00010001u;
    constexpr uint32 kOdd = 0xd400d400u + kZero * 0x00100010u;
    return {{kEven, kEven, kOdd, kOdd}};
  }
  /// Nibbles kIndex and kIndex + 4 of a word, less their column's zero.
  template <int kIndex, int kColumn>
  static __device__ __forceinline__ uint32 pair(uint32 word, const GroupZeros& zeros) {
    constexpr uint32 kSixteenth = 0x2c002c00u;
    const uint32 near = kIndex < 2 ? word : word >> 8;
    const uint32 zero = half_twice<kColumn % 2>(zeros.of[kIndex % 2 * 2 + kColumn / 2]);
    uint32 result;
    if constexpr (kIndex % 2 == 0) {
      asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(insert(near, 0x000f000fu, 0x64006400u)), "r"(zero));
    } else {
      asm("fma.rn.f16x2 %0, %1, %2, %3;"
          : "=r"(result)
          : "r"(insert(near, 0x00f000f0u, 0x64006400u)), "r"(kSixteenth), "r"(zero));
    }
    return result;
  }
};

template <>
struct W4Values<Bfloat16> {
  /// -(128 + zero), twice, which serves nibbles of every index.
  template <int kOffset>
  static __device__ __forceinline__ GroupZeros zeros(uint32 nibbles) {
    GroupZeros result;
#pragma unroll
    for (int i = 0; i < 4; ++i) result.of[i] = 0xc300c300u + (kOffset + (nibbles >> (4 * i) & 15u)) * 0x00010001u;
    return result;
  }
  template <int kZero>
  static __device__ __forceinline__ GroupZeros zeros() {
    constexpr uint32 kSum = 0xc300c300u + kZero * 0x00010001u;
    return {{kSum, kSum, kSum, kSum}};
  }
  template <int kIndex, int kColumn>
  static __device__ __forceinline__ uint32 pair(uint32 word, const GroupZeros& zeros) {
    constexpr uint32 kOne = 0x3f803f80u;
    uint32 result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(insert(word >> (4 * kIndex), 0x000f000fu, 0x43004300u)), "r"(kOne), "r"(zeros.of[kColumn]));
    return result;
  }
};

/// Of the four columns of a lane.
struct GroupScales {
  float of[4];
};

/// Scales of four neighbouring columns, from the two words that hold them.
__device__ __forceinline__ void unpack_scales(GroupScales& scales, const uint32 (&pairs)[2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    scales.of[i] = i % 2 == 0 ? Pair<Half>::low(pairs[i / 2]) : Pair<Half>::high(pairs[i / 2]);
}

/// Of four nibbles, which are in both halves of `nibbles`. kZeroOffset: what is stored without, or, where none are
/// stored, every zero.
template <class Element, bool kStoredZeros, int kZeroOffset>
__device__ __forceinline__ GroupZeros make_zeros(uint32 nibbles) {
  if constexpr (kStoredZeros) {
    return W4Values<Element>::template zeros<kZeroOffset>(nibbles);
  } else {
    return W4Values<Element>::template zeros<kZeroOffset>();
  }
}

}  // namespace cubit
