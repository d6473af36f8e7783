// Conversion of fp8 bytes (e4m3fn, e5m2) to pairs of fp16 values without rounding; NaN and infinity stay what they are.
//
// An e5m2 byte is the upper byte of an fp16. An e4m3 byte is converted by an instruction if the architecture has one.
// Otherwise the byte is also made the upper byte of an fp16, and its exponent and fraction are shifted right by one
// bit; the fp16 is then 2^8 times smaller than the e4m3 number. The NaN codes of e4m3, 0x7f and 0xff, follow the
// largest number, 448: they become ±1.875, and 448 becomes 1.75. Times 36864, only ±1.875 overflows to infinity. Zero
// times that product is then added to the value: zero times infinity gives NaN, and all other products add zero.
//
// PTX ISA: "Data Movement and Conversion Instructions" (prmt, cvt from e4m3x2), "Half Precision Floating Point
// Instructions" (mul, fma).
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Bytes kLow and kHigh of a word of e5m2 as a pair of fp16 values.
template <int kLow, int kHigh>
__device__ __forceinline__ uint32 halves_of_e5m2(uint32 word) {
  return __byte_perm(word, 0, 0x0404 + (kHigh << 12) + (kLow << 4));
}

/// Bytes kLow and kHigh of a word of e4m3 as a pair of fp16 values that are 2^8 times smaller.
template <int kLow, int kHigh>
__device__ __forceinline__ uint32 smaller_halves_of_e4m3(uint32 word) {
  const uint32 upper = halves_of_e5m2<kLow, kHigh>(word);
  const uint32 pair = (upper & 0x80008000u) | (upper >> 1 & 0x3f803f80u);
  uint32 result;
  asm("{\n"
      ".reg .b32 product;\n"
      "mul.rn.f16x2 product, %1, %2;\n"
      "fma.rn.f16x2 %0, product, %3, %1;\n"
      "}"
      : "=r"(result)
      : "r"(pair), "r"(0x78807880u), "r"(0u));
  return result;
}

/// Bytes kLow and kHigh of a word of e4m3 as a pair of fp16 values, by the instruction for two neighbouring bytes,
/// which exists from sm_89 on.
template <int kLow, int kHigh>
__device__ __forceinline__ uint32 converted_halves_of_e4m3(uint32 word) {
  constexpr bool kAreNeighbours = kHigh == kLow + 1;  // otherwise the bytes are 0 and 2, or 1 and 3
  if constexpr (!kAreNeighbours) word = __byte_perm(word, 0, 0x3120);
  constexpr bool kUpper = kLow == (kAreNeighbours ? 2 : 1);
  // A mov splits the word, so that the conversion reads either half in place; a shift would cost an instruction.
  uint32 result;
  if constexpr (kUpper) {
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high;}" : "=r"(result) : "r"(word));
  } else {
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low;}" : "=r"(result) : "r"(word));
  }
  return result;
}

}  // namespace cubit
