// Encodings of four values in the bytes of a word: signed 8-bit integers, e4m3fn and e5m2.
//
// PTX ISA: "Data Movement and Conversion Instructions" (cvt to e4m3x2 and e5m2x2).
#pragma once

#include "core/fp8_halves.cuh"
#include "core/math.cuh"
#include "core/reciprocal.cuh"
#include "core/types.cuh"

namespace cubit {

/// Encoding of signed bytes; -128 is encoded as well. Interface of an encoding: encode(values) rounds four values.
/// Unless kSaturates is true, each must round to a number that the type has. kLargest is the largest number.
/// decode(values, word) is the inverse. byte_of_none(x) is the byte for an x that is an infinity or NaN.
struct Int8Code {
  static constexpr float kLargest = 127.f;
  static constexpr bool kSaturates = false;

  static __device__ __forceinline__ uint32 encode(const float (&values)[4]) {
    uint32 bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(values[i] + kRounder);
    return __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
  }

  static __device__ __forceinline__ uint32 byte_of_none(float x) { return x != x ? 0u : x > 0.f ? 0x7fu : 0x81u; }

  static __device__ __forceinline__ void decode(float (&values)[4], uint32 word) {
    const uint32 biased = word ^ 0x80808080u;  // adds 128 to each byte
#pragma unroll
    for (int i = 0; i < 4; ++i)  // 2^23 + biased byte
      values[i] = __uint_as_float(__byte_perm(biased, 0x4b000000u, 0x7440 + i)) - 8388736.f;
  }
};

/// Encoding of e4m3fn (4 exponent bits) and e5m2 (5 exponent bits). kConverts says whether the architecture has
/// instructions for the conversion.
template <int kExponentBits, bool kConverts>
struct Fp8Code {
  static constexpr int kFractionBits = 7 - kExponentBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr float kLargest = kExponentBits == 4 ? 448.f : 57344.f;
  static constexpr bool kSaturates = kConverts;

  static __device__ __forceinline__ uint32 encode(const float (&values)[4]) {
    if constexpr (kConverts) {
      return pair(positive(values[0]), positive(values[1])) | pair(positive(values[2]), positive(values[3])) << 16;
    } else {
      return byte(positive(values[0])) | byte(positive(values[1])) << 8 | byte(positive(values[2])) << 16 |
             byte(positive(values[3])) << 24;
    }
  }

  /// The NaN that both types have.
  static __device__ __forceinline__ uint32 byte_of_none(float) { return 0x7fu; }

  static __device__ __forceinline__ void decode(float (&values)[4], uint32 word) {
    uint32 pairs[2];
    float larger = 1.f;
    if constexpr (kExponentBits == 5) {
      pairs[0] = halves_of_e5m2<0, 1>(word);
      pairs[1] = halves_of_e5m2<2, 3>(word);
    } else if constexpr (kConverts) {
      pairs[0] = converted_halves_of_e4m3<0, 1>(word);
      pairs[1] = converted_halves_of_e4m3<2, 3>(word);
    } else {
      pairs[0] = smaller_halves_of_e4m3<0, 1>(word);
      pairs[1] = smaller_halves_of_e4m3<2, 3>(word);
      larger = 256.f;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      values[2 * i] = Pair<Half>::low(pairs[i]) * larger;
      values[2 * i + 1] = Pair<Half>::high(pairs[i]) * larger;
    }
  }

 private:
  /// Turns -0 into +0, because a zero that was computed with a reciprocal may have either sign.
  static __device__ __forceinline__ float positive(float value) { return value + 0.f; }

  static __device__ __forceinline__ uint32 pair(float low, float high) {
    uint16 result;
    if constexpr (kExponentBits == 4) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    }
    return result;
  }

  static __device__ __forceinline__ uint32 byte(float value) {
    constexpr int kDropped = 23 - kFractionBits;
    constexpr int kLeast = 1 - kBias;  // smallest exponent of a normal number
    const uint32 bits = __float_as_uint(value);
    const float magnitude = fabsf(value);
    const uint32 shifted = (bits & 0x7fffffffu) - (static_cast<uint32>(127 - kBias) << 23);
    const uint32 normal = (shifted + (1u << (kDropped - 1)) - 1 + (shifted >> kDropped & 1u)) >> kDropped;
    // This sum is a multiple of 2^(kLeast - kFractionBits), which is the spacing of the subnormals.
    const uint32 subnormal = __float_as_uint(magnitude + power_of_two(kLeast - kFractionBits + 23)) & 0xffu;
    return (magnitude < power_of_two(kLeast) ? subnormal : normal) | (bits >> 24 & 0x80u);
  }
};

}  // namespace cubit
