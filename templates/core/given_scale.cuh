// Bytes of fp32 results, divided by one given scale: signed integers or e4m3.
#pragma once

#include "core/byte_codes.cuh"
#include "core/quotient.cuh"
#include "core/types.cuh"

namespace cubit {

/// Range of the bytes of an encoding, as far below 0 as above. NaN becomes 0 in signed bytes. NaN and infinity become
/// the NaN code of e4m3.
template <class ByteCode>
struct CodeRange {
  using Code = ByteCode;
  static constexpr float kLowest = -Code::kLargest;
  static constexpr float kHighest = Code::kLargest;
  static constexpr bool kHasNan = !kSameType<Code, Int8Code>;
};

/// All signed bytes, of results of products.
struct AllSignedBytes : CodeRange<Int8Code> {
  static constexpr float kLowest = -128.f;
};

/// byte = round(value / scale), half to even and saturated. A scale that is not from 2^-100 to 2^100 gives 0, or the
/// NaN code if there is one.
template <class Range>
class QuantisedBytes {
 public:
  __device__ __forceinline__ explicit QuantisedBytes(float scale)
      : scale_(scale), has_scale_(scale >= 0x1p-100f && scale <= 0x1p100f), quotient_(scale) {}

  /// The bytes of four values, the first in the low bits.
  __device__ __forceinline__ uint32 operator()(const float (&values)[4]) const {
    constexpr uint32 kNanBytes = Range::kHasNan ? 0x7f7f7f7fu : 0u;
    if (!has_scale_) return kNanBytes;
    float steps[4];
    uint32 special = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = values[i];
      const bool is_nan = x != x;
      steps[i] = is_nan ? 0.f : quotient_(fminf(fmaxf(x, Range::kLowest * scale_), Range::kHighest * scale_));
      if (Range::kHasNan && !(fabsf(x) <= 0x1.fffffep127f)) special |= 0xffu << (8 * i);
    }
    return (Range::Code::encode(steps) & ~special) | (kNanBytes & special);
  }

 private:
  float scale_;
  bool has_scale_;
  Quotient quotient_;
};

}  // namespace cubit
