// Cache row format of one byte per channel with a scale in a separate tensor for each group of channels: value = scale
// · byte.
//
// With kGroups = 1 the group is a whole row. All rows may then share one scale: the strides of the scale tensor are 0,
// and the kernel reads the scale. A lane's 8 channels are 8 bytes.
//
// Quantisation, in float: scale = max(largest |x| of the group / kLargest, 1e-8), rounded to the scale's type. The byte
// is x / scale, clamped to ±kLargest, with -0 replaced by +0, and rounded to nearest even. A scale of zero gives zeros.
// If the kernel does not compute the scales, it reads them.
//
// Instructions per lane: 8 maxima (4 if the channels come as 16-bit pairs), 2 per halving of the group, and one
// reciprocal. Each channel takes 2 for the division, 2 for a clamp if needed, and the encoding's own instructions: 1,
// and for int8 a byte's share of 3 for each word.
//
// Interface: see row_16bit.cuh.
// PTX ISA: "Data Movement and Conversion Instructions" (cvt to e4m3x2 and e5m2x2).
#pragma once

#include "core/math.cuh"
#include "core/reciprocal.cuh"
#include "core/types.cuh"
#include "kv_format/row_lanes.cuh"
#include "kv_format/scale.cuh"

namespace cubit {

/// Encoding of signed bytes. Interface of an encoding: encode(values) rounds four values; unless kSaturates is true,
/// the values must round to numbers within ±kLargest. decode(values, word) is the inverse.
struct Int8Code {
  static constexpr float kLargest = 127.f;
  static constexpr bool kSaturates = false;

  static __device__ __forceinline__ uint32 encode(const float (&values)[4]) {
    uint32 bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(values[i] + kRounder);
    return __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
  }

  static __device__ __forceinline__ void decode(float (&values)[4], uint32 word) {
    const uint32 biased = word ^ 0x80808080u;  // adds 128 to each byte
#pragma unroll
    for (int i = 0; i < 4; ++i)  // 2^23 + byte
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

  /// Places a byte's exponent and fraction in a float that is 2^(127 - kBias) times smaller. Subnormals of the 8-bit
  /// format thereby become subnormals of float.
  static __device__ __forceinline__ void decode(float (&values)[4], uint32 word) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32 at_top = word << (24 - 8 * i);
      const uint32 magnitude = (at_top & 0x7f000000u) >> (8 - kExponentBits);
      values[i] = __uint_as_float((at_top & 0x80000000u) | magnitude) * power_of_two(127 - kBias);
    }
  }

 private:
  /// Turns -0 into +0, because a quotient by reciprocal may have either sign.
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

template <class Code, class StoredScale, int kChannels, int kGroups, bool kMakesScales>
class RowSplit {
  static constexpr int kLanes = kRowLanes<kChannels>;
  static constexpr int kGroupLanes = kChannels / kGroups / kLaneChannels;
  using Scales = Scale<StoredScale>;
  /// No value exceeds kLargest times the group's own scale, unless fp16 rounds or saturates the scale.
  static constexpr bool kClamps = !Code::kSaturates && !(kMakesScales && kSameType<StoredScale, float>);

 public:
  static constexpr bool kHasScales = true;

  template <class Source>
  static __device__ __forceinline__ void store(char* row, char* scales, int lane, const uint32 (&words)[4],
                                               bool stored) {
    float values[kLaneChannels];
    widen<Source>(values, words);
    if constexpr (kMakesScales && kComparesPairs) {
      store(row, own_scale(scales, lane), lane, values, scale_of_peak(peak_of_pairs<Source>(words, lane)), stored);
    } else {
      store(row, scales, lane, values, stored);
    }
  }

  static __device__ __forceinline__ void store(char* row, char* scales, int lane, const float (&values)[kLaneChannels],
                                               bool stored) {
    char* const own = own_scale(scales, lane);
    if constexpr (kMakesScales) {
      store(row, own, lane, values, scale_of_peak(peak_of_group(values, lane)), stored);
    } else {
      store(row, own, lane, values, stored ? Scales::load(own) : 1.f, stored);
    }
  }

  template <class Result>
  static __device__ __forceinline__ void load(uint32 (&words)[4], const char* row, const char* scales, int lane) {
    uint32 bytes[2];
    load_global<2, 8>(bytes, row + 8 * lane);
    const float scale = Scales::load(scales + lane / kGroupLanes * Scales::kBytes);
    float values[kLaneChannels];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float four[4];
      Code::decode(four, bytes[half]);
#pragma unroll
      for (int i = 0; i < 4; ++i) values[4 * half + i] = __fmul_rn(scale, four[i]);
    }
    narrow<Result>(words, values);
  }

 private:
  struct QuotientOrZero {
    float divisor;
    __device__ __forceinline__ float operator()(float x) const { return divisor == 0.f ? 0.f : x / divisor; }
  };

  static __device__ __forceinline__ char* own_scale(char* scales, int lane) {
    return scales + lane / kGroupLanes * Scales::kBytes;
  }

  static __device__ __forceinline__ float peak_of_group(const float (&values)[kLaneChannels], int lane) {
    float peak = fabsf(values[0]);
#pragma unroll
    for (int i = 1; i < kLaneChannels; ++i) peak = fmaxf(peak, fabsf(values[i]));
    return over_group<kLanes, kGroupLanes>(peak, lane, [](float a, float b) { return fmaxf(a, b); });
  }

  /// Largest magnitude of the 16-bit values as loaded, two in an instruction. The maximum is one of the values, so the
  /// type's precision is enough.
  template <class Source>
  static __device__ __forceinline__ float peak_of_pairs(const uint32 (&words)[4], int lane) {
    using Two = Pair<Source>;
    uint32 peaks = words[0] & 0x7fff7fffu;
#pragma unroll
    for (int i = 1; i < 4; ++i) peaks = Two::larger_magnitudes(peaks, words[i]);
    peaks = Two::larger(peaks, __byte_perm(peaks, peaks, 0x1032));  // from here on both halves are equal
    peaks = over_group<kLanes, kGroupLanes>(peaks, lane, [](uint32 a, uint32 b) { return Two::larger(a, b); });
    return Two::high(peaks);
  }

  static __device__ __forceinline__ float scale_of_peak(float peak) {
    return Scales::rounded(fmaxf(divided_by<static_cast<int>(Code::kLargest)>(peak), 1e-8f));
  }

  static __device__ __forceinline__ void store(char* row, char* own, int lane, const float (&values)[kLaneChannels],
                                               float scale, bool stored) {
    uint32 words[2];
    // Within these bounds no product is infinite.
    if (scale >= 0x1p-24f && divides_by_reciprocal(scale)) {
      encode(words, values, Reciprocal(scale));
    } else {
      encode(words, values, QuotientOrZero{scale});
    }
    if (stored) store_global<8>(row + 8 * lane, words[0], words[1]);
    if constexpr (kMakesScales) {
      if (stored && lane % kGroupLanes == 0) Scales::store(own, scale);
    }
  }

  template <class Steps>
  static __device__ __forceinline__ void encode(uint32 (&words)[2], const float (&values)[kLaneChannels], Steps steps) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float four[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        four[i] = steps(values[4 * half + i]);
        if constexpr (kClamps) four[i] = fminf(fmaxf(four[i], -Code::kLargest), Code::kLargest);
      }
      words[half] = Code::encode(four);
    }
  }
};

}  // namespace cubit
