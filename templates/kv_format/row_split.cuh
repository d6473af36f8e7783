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
// A group with an infinity or NaN gets the scale NaN and zeros. If the scale is read, an infinity or NaN becomes the
// NaN of fp8; in int8 NaN becomes 0, and an infinity ±127.
//
// Instructions per lane: 8 maxima (4 if the channels come as 16-bit pairs), 2 per halving of the group, and one
// reciprocal. Each channel takes 2 for the division, 2 for a clamp if needed, and the encoding's own instructions: 1,
// and for int8 a byte's share of 3 for each word.
//
// Interface: see row_16bit.cuh. The encodings are in core/byte_codes.cuh.
#pragma once

#include "core/byte_codes.cuh"
#include "core/math.cuh"
#include "core/reciprocal.cuh"
#include "core/types.cuh"
#include "kv_format/row_lanes.cuh"
#include "kv_format/scale.cuh"

namespace cubit {

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
    for (int i = 1; i < kLaneChannels; ++i) peak = larger_magnitude_or_nan(peak, fabsf(values[i]));
    return over_group<kLanes, kGroupLanes>(peak, lane, [](float a, float b) { return larger_magnitude_or_nan(a, b); });
  }

  /// Largest magnitude of the 16-bit values as loaded, two in an instruction. The maximum is one of the values, so the
  /// type's precision is enough.
  template <class Source>
  static __device__ __forceinline__ float peak_of_pairs(const uint32 (&words)[4], int lane) {
    using Two = Pair<Source>;
    uint32 peaks = words[0] & 0x7fff7fffu;
#pragma unroll
    for (int i = 1; i < 4; ++i) peaks = Two::larger_or_nan(peaks, words[i] & 0x7fff7fffu);
    peaks = Two::larger_or_nan(peaks, __byte_perm(peaks, peaks, 0x1032));  // from here on both halves are equal
    peaks = over_group<kLanes, kGroupLanes>(peaks, lane, [](uint32 a, uint32 b) { return Two::larger_or_nan(a, b); });
    return Two::high(peaks);
  }

  static __device__ __forceinline__ float scale_of_peak(float peak) {
    const float scale = Scales::rounded(fmaxf(divided_by<static_cast<int>(Code::kLargest)>(peak), 1e-8f));
    return is_finite(peak) ? scale : quiet_nan();
  }

  static __device__ __forceinline__ void store(char* row, char* own, int lane, const float (&values)[kLaneChannels],
                                               float scale, bool stored) {
    uint32 words[2];
    // Within these bounds no product is infinite.
    if (scale >= 0x1p-24f && divides_by_reciprocal(scale)) {
      encode(words, values, Reciprocal(scale));
    } else {
      encode(words, values, QuotientOrZero{scale});
      if (kMakesScales && scale != scale) words[0] = words[1] = 0;  // the group holds an infinity or NaN
    }
    if constexpr (!kMakesScales) mark_none(words, values, scale);
    if (stored) store_global<8>(row + 8 * lane, words[0], words[1]);
    if constexpr (kMakesScales) {
      if (stored && lane % kGroupLanes == 0) Scales::store(own, scale);
    }
  }

  /// Replaces the bytes of infinities and NaNs; if the scale is NaN, all bytes. A sum that is no number, which it may
  /// be for large numbers too, is the reason to look at each value.
  static __device__ __forceinline__ void mark_none(uint32 (&words)[2], const float (&values)[kLaneChannels],
                                                   float scale) {
    float sum = scale;
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) sum += values[i];
    if (is_finite(sum)) return;
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      if (scale == scale && is_finite(values[i])) continue;
      const uint32 byte = Code::byte_of_none(scale == scale ? values[i] : scale);
      words[i / 4] = (words[i / 4] & ~(0xffu << (8 * (i % 4)))) | byte << (8 * (i % 4));
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
