// Nibbles of a packed word as 16-bit operands, exactly and in two instructions per pair.
//
// fp16: `word & 0x000f000f` is a pair of subnormals n · 2^-24, which tensor cores multiply exactly; 2^24 is undone on the
// group's factor. A bf16 subnormal n · 2^-133 would be lost in the product: or-ing 0x4300 into the same bits gives 128 + n
// exactly, and the 128 joins the zero.
#pragma once

#include "types.cuh"

namespace cubit {

/// What stands for nibble n in an operand is (n + kOffset) · kUnit, and kScale is 1 / kUnit. kOne: a pair of ones.
template <class Element>
struct W4Values;

template <>
struct W4Values<Half> {
  static constexpr float kScale = 16777216.f;  // 2^24
  static constexpr float kUnit = 1 / 16777216.f;
  static constexpr int kOffset = 0;
  static constexpr uint32 kOne = 0x3c003c00u;
  /// Nibbles kIndex and kIndex + 4 of a word.
  template <int kIndex>
  static __device__ __forceinline__ uint32 pair(uint32 word) {
    return word >> (4 * kIndex) & 0x000f000fu;
  }
};

template <>
struct W4Values<Bfloat16> {
  static constexpr float kScale = 1.f;
  static constexpr float kUnit = 1.f;
  static constexpr int kOffset = 128;
  static constexpr uint32 kOne = 0x3f803f80u;
  template <int kIndex>
  static __device__ __forceinline__ uint32 pair(uint32 word) {
    return (word >> (4 * kIndex) & 0x000f000fu) | 0x43004300u;
  }
};

/// Of the columns of a lane, [half][tile]: sum += scale · (product + minus_zero · sum of activations).
struct GroupFactors {
  float scale[2][4];
  float minus_zero[2][4];
};

/// From a scale and the nibble of a zero. kZeroOffset: what is stored without.
template <class Element, int kZeroOffset>
__device__ __forceinline__ void set_factor(GroupFactors& factors, int half, int tile, float scale, uint32 zero) {
  using Values = W4Values<Element>;
  factors.scale[half][tile] = scale * Values::kScale;
  const int whole = static_cast<int>(zero & 15u) + (kZeroOffset + Values::kOffset);
  factors.minus_zero[half][tile] = static_cast<float>(whole) * -Values::kUnit;
}

}  // namespace cubit
