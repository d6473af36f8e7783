// Conversion of packed 4-bit weights into scaled 16-bit operands: (nibble - zero) · scale.
//
// A nibble q that is inserted into the low bits of a power of two adds q (see w4_values.cuh), and one packed
// instruction subtracts the power and the zero exactly. The product with the scale is then rounded once, to the
// operand's type, so that the accumulators of all groups are one and the same.
//
// fp16 multiplies by the fp16 scale, so that a weight beyond 65504 becomes infinite. bf16 has fewer bits than a scale:
// the scale is the sum of two bf16 values, the product with the lower one is exact, and an fma rounds the sum once.
//
// A pair of weights comes from a word in one of three forms: from the two nibbles of one byte, or from nibble 0 or
// nibble 1 of both halves of a word.
#pragma once

#include "core/types.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

enum class NibblePair { kByte, kFirst, kSecond };

/// a · b + c for packed pairs.
template <class Element>
__device__ __forceinline__ uint32 multiply_add_pairs(uint32 a, uint32 b, uint32 c) {
  uint32 result;
  if constexpr (kSameType<Element, Half>) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  }
  return result;
}

/// Factors with which a lane converts the weights of one feature and one group.
template <class Element>
struct W4Factor;

template <>
struct W4Factor<Half> {
  uint32 scale;   ///< twice
  uint32 addend;  ///< less powers of two and zeros

  /// `scale` is an fp16 in the low half, `zero` is from 0 to 16.
  template <NibblePair kPair>
  static __device__ __forceinline__ W4Factor make(uint32 scale, uint32 zero) {
    // -(1024 + zero) in fp16, and -(64 + zero) for a nibble that is inserted as 16 q.
    constexpr uint32 kPowers = kPair == NibblePair::kByte    ? 0xd400e400u
                               : kPair == NibblePair::kFirst ? 0xe400e400u
                                                             : 0xd400d400u;
    constexpr uint32 kOne = kPair == NibblePair::kByte    ? 0x00100001u
                            : kPair == NibblePair::kFirst ? 0x00010001u
                                                          : 0x00100010u;
    return {__byte_perm(scale, 0, 0x1010), kPowers + zero * kOne};
  }
  /// For kByte, `word` comes from W4ByteSelector.
  template <NibblePair kPair>
  __device__ __forceinline__ uint32 apply(uint32 word) const {
    constexpr uint32 kMask = kPair == NibblePair::kByte    ? 0x00f0000fu
                             : kPair == NibblePair::kFirst ? 0x000f000fu
                                                           : 0x00f000f0u;
    constexpr uint32 kRatios = kPair == NibblePair::kByte    ? 0x2c003c00u
                               : kPair == NibblePair::kFirst ? 0x3c003c00u
                                                             : 0x2c002c00u;
    const uint32 number = multiply_add_pairs<Half>(insert(word, kMask, 0x64006400u), kRatios, addend);
    return Pair<Half>::product(number, scale);
  }
};

template <>
struct W4Factor<Bfloat16> {
  uint32 scale;       ///< twice, rounded to bf16
  uint32 scale_rest;  ///< twice, what the rounding left
  uint32 addend;

  template <NibblePair kPair>
  static __device__ __forceinline__ W4Factor make(uint32 scale, uint32 zero) {
    const float value = Pair<Half>::low(scale);
    const uint32 rounded = Pair<Bfloat16>::pack(value, value);
    const float rest = value - Pair<Bfloat16>::low(rounded);
    return {rounded, Pair<Bfloat16>::pack(rest, rest), 0xc300c300u + zero * 0x00010001u};
  }
  template <NibblePair kPair>
  __device__ __forceinline__ uint32 apply(uint32 word) const {
    constexpr uint32 kOne = 0x3f803f80u;
    constexpr uint32 kMinusZero = 0x80008000u;
    const uint32 nibbles = kPair == NibblePair::kSecond ? word >> 4 : word;
    const uint32 number = multiply_add_pairs<Bfloat16>(insert(nibbles, 0x000f000fu, 0x43004300u), kOne, addend);
    return multiply_add_pairs<Bfloat16>(number, scale, multiply_add_pairs<Bfloat16>(number, scale_rest, kMinusZero));
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
