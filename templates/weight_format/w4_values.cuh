// Exact conversion of packed 4-bit weights into 16-bit operands: nibble minus zero, in two instructions per pair.
//
// Inserting a nibble q into the low bits of a power of two adds q: fp16 0x6400 | q is 1024 + q, and 0x6400 | q << 4 is
// 1024 + 16 q; bf16 0x4300 | q is 128 + q. One packed instruction then subtracts the power of two and the zero
// together: an addition, or, for a nibble in bits 4 to 7, a multiplication by 1/16 with an addition. Every result is an
// integer from -16 to 15, so nothing is rounded. The addend for a zero is made from the zero's own nibble in the same
// way, in fp16 for two columns at a time.
//
// In fp16, pairs (0, 4) and (1, 5) are converted in place. Pairs (2, 6) and (3, 7) need a shift by 8 bits, which both
// pairs share. bf16 has too few significand bits for a nibble in bits 4 to 7, so every pair but the first needs a
// shift.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Addends of W4Values::pair for the zeros of a lane's four columns. In fp16 a register has two columns: of[0] (columns
/// 0 and 1) and of[1] (columns 2 and 3) serve nibbles of even index, of[2] and of[3] serve nibbles of odd index. In
/// bf16, and in number formats with their own pairs, a register has one column.
struct GroupZeros {
  uint32 of[4];
};

/// bits & mask | power, as a single lop3 instruction in any case.
__device__ __forceinline__ uint32 insert(uint32 bits, uint32 mask, uint32 power) {
  uint32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(bits), "r"(mask), "r"(power));
  return result;
}

/// Duplicates one half of a register. Instructions that use the result read it through an operand modifier, so no
/// instruction is needed. For a byte permutation the compiler would emit one.
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
  /// Addends for the zeros of four columns. `nibbles` has the columns' four nibbles in its low half and again in its
  /// high half; a zero is nibble + kOffset, from 0 to 16. of[0] and of[1] are -(1024 + zero), and of[2] and of[3] are
  /// -(64 + zero). All addends are exact. In each pair, the low half starts as 1024 + nibble and the high half starts
  /// as 1024 + 16 · nibble.
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
  /// Addends if every zero is kZero.
  template <int kZero>
  static __device__ __forceinline__ GroupZeros zeros() {
    constexpr uint32 kEven = 0xe400e400u + kZero * 0x00010001u;
    constexpr uint32 kOdd = 0xd400d400u + kZero * 0x00100010u;
    return {{kEven, kEven, kOdd, kOdd}};
  }
  /// Nibbles kIndex and kIndex + 4 of a word, minus the zero of their column.
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
  /// Addends for the zeros of four columns, from the four nibbles in the low half of `nibbles`. of[i] is -(128 + zero)
  /// of column i in both halves, and serves nibbles of every index.
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

/// Scales of a lane's four columns.
struct GroupScales {
  float of[4];
};

/// Unpacks the scales of four neighbouring columns from two words.
__device__ __forceinline__ void unpack_scales(GroupScales& scales, const uint32 (&pairs)[2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    scales.of[i] = i % 2 == 0 ? Pair<Half>::low(pairs[i / 2]) : Pair<Half>::high(pairs[i / 2]);
}

/// Addends for the zeros of four columns. `nibbles` has the columns' four stored nibbles in its low half and again in
/// its high half. kZeroOffset is the difference between a zero and its stored nibble. If no zeros are stored, every
/// zero is kZeroOffset, and `nibbles` is ignored.
template <class Element, bool kStoredZeros, int kZeroOffset>
__device__ __forceinline__ GroupZeros make_zeros(uint32 nibbles) {
  if constexpr (kStoredZeros) {
    return W4Values<Element>::template zeros<kZeroOffset>(nibbles);
  } else {
    return W4Values<Element>::template zeros<kZeroOffset>();
  }
}

}  // namespace cubit
