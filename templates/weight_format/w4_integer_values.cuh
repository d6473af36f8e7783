// Exact conversion of packed 4-bit weights into 16-bit operands: nibble - zero, an integer from -16 to 15.
//
// A nibble q that is inserted into the low bits of a power of two adds q (see w4_values.cuh), and one packed
// instruction subtracts the power and the zero. Scales are applied to sums: see w4_group_scales.cuh. Weights of a group
// whose scale is zero become zeros.
//
// A pair of weights comes from a word in one of three forms: from the two nibbles of one byte, or from nibble 0 or
// nibble 1 of both halves of a word.
#pragma once

#include "core/types.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

enum class NibblePair { kByte, kFirst, kSecond };

/// Constants with which a lane converts the weights of one feature and one group.
template <class Element>
struct W4Converter;

template <>
struct W4Converter<Half> {
  uint32 factor;  ///< the inverse of the power of two that each nibble is shifted by
  uint32 addend;  ///< less powers of two and zeros

  /// `zero` is from 0 to 16. `mask` is all ones, or 0 if the weights are zeros.
  template <NibblePair kPair>
  static __device__ __forceinline__ W4Converter make(uint32 zero, uint32 mask) {
    // -(1024 + zero) in fp16, and -(64 + zero) for a nibble that is inserted as 16 q.
    constexpr uint32 kPowers = kPair == NibblePair::kByte    ? 0xd400e400u
                               : kPair == NibblePair::kFirst ? 0xe400e400u
                                                             : 0xd400d400u;
    constexpr uint32 kOne = kPair == NibblePair::kByte    ? 0x00100001u
                            : kPair == NibblePair::kFirst ? 0x00010001u
                                                          : 0x00100010u;
    constexpr uint32 kFactor = kPair == NibblePair::kByte    ? 0x2c003c00u
                               : kPair == NibblePair::kFirst ? 0x3c003c00u
                                                             : 0x2c002c00u;
    return {kFactor & mask, (kPowers + zero * kOne) & mask};
  }
  /// For kByte, `word` comes from W4ByteSelector.
  template <NibblePair kPair>
  __device__ __forceinline__ uint32 apply(uint32 word) const {
    constexpr uint32 kMask = kPair == NibblePair::kByte    ? 0x00f0000fu
                             : kPair == NibblePair::kFirst ? 0x000f000fu
                                                           : 0x00f000f0u;
    const uint32 pair = insert(word, kMask, 0x64006400u);
    uint32 result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(factor), "r"(addend));
    return result;
  }
};

template <>
struct W4Converter<Bfloat16> {
  uint32 factor;  ///< 1
  uint32 addend;  ///< -(128 + zero)

  template <NibblePair kPair>
  static __device__ __forceinline__ W4Converter make(uint32 zero, uint32 mask) {
    return {0x3f803f80u & mask, (0xc300c300u + zero * 0x00010001u) & mask};
  }
  template <NibblePair kPair>
  __device__ __forceinline__ uint32 apply(uint32 word) const {
    const uint32 pair = insert(kPair == NibblePair::kSecond ? word >> 4 : word, 0x000f000fu, 0x43004300u);
    uint32 result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(factor), "r"(addend));
    return result;
  }
};

/// Selects byte `byte` of a word for NibblePair::kByte, with the second nibble where apply() expects it.
template <class Element>
struct W4ByteSelector {
  uint32 selector;

  __device__ __forceinline__ explicit W4ByteSelector(int byte)
      : selector(kSameType<Element, Half> ? 0x1111u * byte : 0x4440u + byte) {}
  __device__ __forceinline__ uint32 operator()(uint32 word) const {
    const uint32 bytes = __byte_perm(word, 0, selector);
    // bf16: the byte, and the byte again 12 bits higher, which puts the second nibble at bit 16.
    return kSameType<Element, Half> ? bytes : bytes * 0x1001u;
  }
};

}  // namespace cubit
