// Scales of quantised rows: how a row's scale is found, and how the row's values become bytes.
//
// Interface of a scaling, of which every thread of a row has an object:
//   kReadsRow       whether the scale depends on the row's values; if false, take() and reduce() do nothing
//   take(pair)      considers two values of the row, packed in a register
//   reduce(…)       combines what the threads of the row have taken
//   find(…)         computes or loads the row's scale and stores it if the kernel writes scales
//   encode(values)  turns four values into a word of bytes
//
// Values that are not finite: with a scale from the row, the row's scale becomes NaN and its bytes 0. With a given
// scale, int8 stores 0 for NaN and ±127 for infinity, and e4m3 stores its NaN code for both. A given scale that is not
// from 2^-100 to 2^100 counts as NaN: int8 stores 0 and e4m3 its NaN code.
#pragma once

#include "core/byte_codes.cuh"
#include "core/copies.cuh"
#include "core/given_scale.cuh"
#include "core/math.cuh"
#include "core/quotient.cuh"
#include "core/types.cuh"
#include "quantisation/quantised_rows.h"
#include "quantisation/row_threads.cuh"

namespace cubit {

inline constexpr uint32 kInfinityBits = 0x7f800000u;
inline constexpr uint32 kSignBit = 0x80000000u;
inline constexpr uint32 kNanBits = 0x7fc00000u;
inline constexpr float kLeastScale = 1e-8f;

__device__ __forceinline__ void store_row_word(char* dst, int64 row, uint32 word) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(dst + 4 * row), "r"(word) : "memory");
}

__device__ __forceinline__ uint32 larger(uint32 a, uint32 b) { return a > b ? a : b; }

/// Converts both values of a pair to floats, and returns the larger of their bits as unsigned numbers.
template <class Element>
__device__ __forceinline__ uint32 larger_bits(uint32 pair) {
  return larger(__float_as_uint(Pair<Element>::low(pair)), __float_as_uint(Pair<Element>::high(pair)));
}

/// In the place of a scaling: the row is stored as it is.
struct Unquantised;

/// One scale for the whole tensor, which the kernel reads.
template <class Code>
class GivenScale {
 public:
  static constexpr bool kReadsRow = false;

  template <class Element>
  __device__ __forceinline__ void take(uint32) {}
  template <class Element>
  __device__ __forceinline__ void reduce(const RowThreads&) {}
  __device__ __forceinline__ void find(const QuantisedRows& result, const RowThreads&) {
    uint32 word[1];
    load_global<1, 4>(word, result.scale);
    quantise_ = QuantisedBytes<CodeRange<Code>>(__uint_as_float(word[0]));
  }
  __device__ __forceinline__ uint32 encode(const float (&values)[4]) const { return quantise_(values); }

 private:
  QuantisedBytes<CodeRange<Code>> quantise_{1.f};
};

/// Symmetric scale of each row: scale = max(largest magnitude / kLargest, 1e-8).
template <class Code>
class RowScale {
 public:
  static constexpr bool kReadsRow = true;

  template <class Element>
  __device__ __forceinline__ void take(uint32 pair) {
    if constexpr (kComparesPairs) {
      peak_ = Pair<Element>::larger_or_nan(peak_, pair & 0x7fff7fffu);
    } else {
      peak_ = larger(peak_, larger_bits<Element>(pair & 0x7fff7fffu));
    }
  }
  template <class Element>
  __device__ __forceinline__ void reduce(const RowThreads& threads) {
    __shared__ RowExchange exchange;
    peak_ = threads.largest(kComparesPairs ? larger_bits<Element>(peak_) : peak_, exchange);
  }
  __device__ __forceinline__ void find(const QuantisedRows& result, const RowThreads& threads) {
    is_finite_ = peak_ < kInfinityBits;
    const float peak = is_finite_ ? __uint_as_float(peak_) : 0.f;
    const float scale = fmaxf(divided_by<static_cast<int>(Code::kLargest)>(peak), kLeastScale);
    quotient_ = Quotient(scale);
    if (threads.is_first())
      store_row_word(result.scales, threads.row(), is_finite_ ? __float_as_uint(scale) : kNanBits);
  }
  __device__ __forceinline__ uint32 encode(const float (&values)[4]) const {
    float steps[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) steps[i] = quotient_(values[i]);
    return is_finite_ ? Code::encode(steps) : 0u;
  }

 private:
  uint32 peak_ = 0;  // until reduce(), a pair of magnitudes if the architecture compares pairs; else bits of a float
  Quotient quotient_{1.f};
  bool is_finite_ = true;
};

/// Scale and zero point of each row, for int8. With lowest = min(x, 0) and highest = max(x, 0) of the row:
///   scale = max(highest / 255 - lowest / 255, 1e-8)
///   zero  = round(-128 - lowest / scale), from -128 to 127
///   byte  = round(x / scale + zero), from -128 to 127
class RowScaleAndZero {
 public:
  static constexpr bool kReadsRow = true;

  template <class Element>
  __device__ __forceinline__ void take(uint32 pair) {
    if constexpr (kComparesPairs) {
      highest_ = Pair<Element>::larger_or_nan(highest_, pair);
      lowest_ = Pair<Element>::smaller_or_nan(lowest_, pair);
    } else {
      take_bits(__float_as_uint(Pair<Element>::low(pair)));
      take_bits(__float_as_uint(Pair<Element>::high(pair)));
    }
  }
  template <class Element>
  __device__ __forceinline__ void reduce(const RowThreads& threads) {
    __shared__ RowExchange highest;
    __shared__ RowExchange lowest;
    highest_ = threads.largest(kComparesPairs ? larger_bits<Element>(highest_) : highest_, highest);
    lowest_ = threads.largest(kComparesPairs ? larger_bits<Element>(lowest_) : lowest_, lowest);
  }
  __device__ __forceinline__ void find(const QuantisedRows& result, const RowThreads& threads) {
    is_finite_ = highest_ < kInfinityBits && lowest_ < (kInfinityBits | kSignBit);
    const float highest = is_finite_ ? __uint_as_float(highest_) : 0.f;
    const float lowest = is_finite_ ? __uint_as_float(lowest_) : 0.f;
    const float scale = fmaxf(__fsub_rn(__fdiv_rn(highest, 255.f), __fdiv_rn(lowest, 255.f)), kLeastScale);
    const float at_zero = fminf(fmaxf(-128.f - __fdiv_rn(lowest, scale), -128.f), 127.f);
    const int zero = __float2int_rn(at_zero);
    zero_ = static_cast<float>(zero);
    quotient_ = Quotient(scale);
    if (!threads.is_first()) return;
    store_row_word(result.scales, threads.row(), is_finite_ ? __float_as_uint(scale) : kNanBits);
    store_row_word(result.zero_points, threads.row(), static_cast<uint32>(is_finite_ ? zero : 0));
  }
  __device__ __forceinline__ uint32 encode(const float (&values)[4]) const {
    float steps[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      steps[i] = fminf(fmaxf(__fadd_rn(quotient_(values[i]), zero_), -128.f), 127.f);
    }
    return is_finite_ ? Int8Code::encode(steps) : 0u;
  }

 private:
  __device__ __forceinline__ void take_bits(uint32 bits) {
    if (static_cast<int>(bits) > static_cast<int>(highest_)) highest_ = bits;
    lowest_ = larger(lowest_, bits);
  }

  // Bits of floats; until reduce(), pairs of values if the architecture compares pairs. Positive floats are ordered as
  // integers are; negative floats, read as unsigned integers, grow with their magnitude. NaN lies beyond infinity of
  // its sign: a positive NaN, as comparisons of pairs return it, is found in highest_, and a negative one in lowest_.
  uint32 highest_ = 0;
  uint32 lowest_ = kComparesPairs ? 0x80008000u : kSignBit;
  Quotient quotient_{1.f};
  float zero_ = 0.f;
  bool is_finite_ = true;
};

}  // namespace cubit
