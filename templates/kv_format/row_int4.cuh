// Cache row format int4_rows: a header of kGroups (scale, shift) pairs in fp16, then one nibble per channel, low nibble
// first; value = scale · nibble + shift.
//
// A lane's 8 channels are one word. A group is kGroupLanes lanes, and the first of these lanes handles the group's
// header pair.
//
//   lanes      |  0   1 | 2   3 | …          a row of 8 groups: 2 lanes each
//   row  | pair 0 | pair 1 | … | word 0 | word 1 | …
//
// Quantisation of a group, in float: lo and hi are the extremes; q = clamp(round-half-even((x - lo) · 15 / ((hi - lo) +
// 1e-8)), 0, 15); scale = fp16((hi - lo) / 15); shift = fp16(lo). Scale and shift saturate at ±65504. A shift of zero
// is stored as +0. A group with an infinity or NaN gets the scale and the shift NaN (0x7e00), and zeros.
//
// Instructions per lane: 9 for the extremes and 2 per halving of the group if the channels come as 16-bit pairs, 14 and
// 4 if they come as floats; one reciprocal; 6 per channel, of which a division takes two. Interface: see row_16bit.cuh.
#pragma once

#include "core/math.cuh"
#include "core/reciprocal.cuh"
#include "core/types.cuh"
#include "kv_format/row_lanes.cuh"

namespace cubit {

/// Returns x / divisor, at most 15, where x is 15 times the distance of a value from the group's lowest value. If the
/// group is wider than the largest float divided by 15, x may be infinite, and the minimum turns the quotient into 15.
/// No other case needs the minimum, because the divisor is at least the group's width.
struct DividedSteps {
  float divisor;
  __device__ __forceinline__ float operator()(float x) const { return fminf(x / divisor, 15.f); }
};

template <int kChannels, int kGroups>
class RowInt4 {
  static constexpr int kLanes = kRowLanes<kChannels>;
  static constexpr int kGroupLanes = kChannels / kGroups / kLaneChannels;
  static constexpr int kHeaderBytes = 4 * kGroups;
  static_assert(kChannels % (16 * kGroups) == 0);

 public:
  static constexpr bool kHasScales = false;

  template <class Source>
  static __device__ __forceinline__ void store(char* row, char*, int lane, const uint32 (&words)[4], bool stored) {
    float values[kLaneChannels];
    widen<Source>(values, words);
    if constexpr (kComparesPairs) {
      store(row, lane, values, range_of_pairs<Source>(words, lane), stored);
    } else {
      store(row, nullptr, lane, values, stored);
    }
  }

  static __device__ __forceinline__ void store(char* row, char*, int lane, const float (&values)[kLaneChannels],
                                               bool stored) {
    store(row, lane, values, range_of_group(values, lane), stored);
  }

  template <class Result>
  static __device__ __forceinline__ void load(uint32 (&words)[4], const char* row, const char*, int lane) {
    uint32 pair[1];
    uint32 word[1];
    load_global<1, 4>(pair, row + 4 * (lane / kGroupLanes));
    load_global<1, 4>(word, row + kHeaderBytes + 4 * lane);
    const float scale = Pair<Half>::low(pair[0]);
    const float shift = Pair<Half>::high(pair[0]);
    float values[kLaneChannels];
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      // The product of an 11-bit and a 4-bit number is exact; fused or not, the sum is rounded once.
      values[i] = scale * static_cast<float>(word[0] >> (4 * i) & 15u) + shift;
    }
    narrow<Result>(words, values);
  }

 private:
  struct Range {
    float lowest;
    float highest;
  };

  static __device__ __forceinline__ void store(char* row, int lane, const float (&values)[kLaneChannels], Range range,
                                               bool stored) {
    const float width = range.highest - range.lowest;
    const float divisor = width + 1e-8f;
    uint32 word;
    uint32 pair;
    // Within these bounds nothing saturates at fp16's largest number, and no product is infinite.
    if (divides_by_reciprocal(divisor) && divisor < kLargest && fabsf(range.lowest) <= kLargest) {
      word = nibbles(values, range.lowest, Reciprocal(divisor));
      pair = Pair<Half>::pack(divided_by<15>(width), range.lowest);
    } else {
      word = nibbles(values, range.lowest, DividedSteps{divisor});
      pair = Pair<Half>::pack(saturated(width / 15.f), saturated(range.lowest));
      if (!is_finite(range.lowest) || !is_finite(range.highest)) {
        word = 0;
        pair = 0x7e007e00u;
      }
    }
    char* const own = row + kHeaderBytes + 4 * lane;
    char* const header = own - (kHeaderBytes + 4 * lane - 4 * (lane / kGroupLanes));
    if (stored) store_global(own, word);
    if (stored && lane % kGroupLanes == 0) store_global(header, pair);
  }

  /// Rounds a lane's values to nibbles. Each sum with kRounder has the nibble in its low bits; the other bits of the
  /// sums add up to kRounderNibbles, which is subtracted at the end (reciprocal.cuh).
  template <class Steps>
  static __device__ __forceinline__ uint32 nibbles(const float (&values)[kLaneChannels], float lowest, Steps steps) {
    uint32 word = 0;
#pragma unroll
    for (int i = kLaneChannels - 1; i >= 0; --i) {
      const float rounded = steps((values[i] - lowest) * 15.f) + kRounder;
      word = 16 * word + __float_as_uint(rounded);
    }
    return word - kRounderNibbles;
  }

  static constexpr float kLargest = 65504.f;
  static __device__ __forceinline__ float saturated(float value) { return fminf(fmaxf(value, -kLargest), kLargest); }

  /// Extremes of the 16-bit values as loaded, two in an instruction. The extremes are among the values, so the type's
  /// precision is enough. The highest is NaN if one of the values is.
  template <class Source>
  static __device__ __forceinline__ Range range_of_pairs(const uint32 (&words)[4], int lane) {
    using Two = Pair<Source>;
    const uint32 lowest = Two::smaller(Two::smaller(words[0], words[1]), Two::smaller(words[2], words[3]));
    const uint32 highest =
        Two::larger_or_nan(Two::larger_or_nan(words[0], words[1]), Two::larger_or_nan(words[2], words[3]));
    // Pairs (lowest, -highest): one minimum and one shuffle serve both extremes.
    const uint32 opposite = highest ^ 0x80008000u;
    uint32 both = Two::smaller_or_nan(__byte_perm(lowest, opposite, 0x5410), __byte_perm(lowest, opposite, 0x7632));
    both = over_group<kLanes, kGroupLanes>(both, lane, [](uint32 a, uint32 b) { return Two::smaller_or_nan(a, b); });
    return {Two::low(both) + 0.f, -Two::high(both)};  // + 0.f turns -0 into +0
  }

  static __device__ __forceinline__ Range range_of_group(const float (&values)[kLaneChannels], int lane) {
    Range range{values[0], values[0]};
#pragma unroll
    for (int i = 1; i < kLaneChannels; ++i) {
      range.lowest = fminf(range.lowest, values[i]);
      range.highest = larger_or_nan(range.highest, values[i]);
    }
    range.lowest = over_group<kLanes, kGroupLanes>(range.lowest, lane, [](float a, float b) { return fminf(a, b); });
    range.highest =
        over_group<kLanes, kGroupLanes>(range.highest, lane, [](float a, float b) { return larger_or_nan(a, b); });
    range.lowest += 0.f;  // turns -0 into +0
    return range;
  }
};

}  // namespace cubit
