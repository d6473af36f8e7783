// Scales and zeros of a lane's two features in the persistent GEMM, group by group along k.
//
// Operands are the integers nibble - zero, and sums are in units of the scale of the group whose products are being
// added. When the next group begins, the sums so far are multiplied by the old scale divided by the new scale, and when
// all products are added, by the last scale. So no weight is rounded, and one set of accumulators serves all groups. A
// group whose scale is zero has zeros as operands and leaves the unit as it is.
//
// Lanes read scales and zeros from global memory into registers. The loads of a slab's groups are issued at least one
// slab before the scales are used. Groups beyond the last one are the last group again: their activations are zeros.
//
// The lane's second feature is the neighbour (by k) or the next but one (by n) of the first feature, in the same word
// of zeros; if gated, it is the up-projection feature, n / 2 columns away.
#pragma once

#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/gemm/persistent_gemm_arguments.h"
#include "weight_format/w4_integer_values.cuh"

namespace cubit {

/// kGroups: groups of a slab. kZeroOffset: difference between a zero and its stored nibble, or every zero if none are
/// stored.
template <class Element, int kGroups, bool kStoredZeros, int kZeroOffset, bool kByN, bool kGated>
class W4GroupScales {
 public:
  using Converter = W4Converter<Element>;

  /// `column`: the lane's first feature, as a column of the weights. Columns outside the weights are replaced by others
  /// of the same place in their word.
  __device__ __forceinline__ W4GroupScales(const PersistentGemmArguments& args, int column, int group)
      : args_(args), group_(group) {
    const int place = column % 8;
    const int first = min(column, (kGated ? args.n / 2 : args.n) - 8 + place);
    scales_ = static_cast<const char*>(args.scales) + 2 * static_cast<int64>(first);
    if (kStoredZeros) zeros_ = static_cast<const char*>(args.qzeros) + first / 8 * 4;
    // The nibbles of a word along n are of columns 0, 2, 4, 6, 1, 3, 5, 7.
    shift_ = 4 * (kByN ? place % 2 * 4 + place / 2 : place);
  }

  /// Starts the loads of the next slab's groups.
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const int64 group = min(group_++, args_.groups - 1);
      load_scales(scale_words_[i], scales_ + 2 * (group * args_.n));
      if constexpr (kStoredZeros) load_zeros(zero_words_[i], zeros_ + group * (args_.n / 2));
    }
  }

  /// Makes converters of what the last fetch() has loaded, and goes on to the units of these groups. kFirst and
  /// kSecond: how the operand's pairs of the two features are stored.
  template <NibblePair kFirst, NibblePair kSecond>
  __device__ __forceinline__ void take(Converter (&converters)[kGroups][2]) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const uint32 second = kOneScaleWord ? scale_words_[i][0] >> 16 : scale_words_[i][1];
      converters[i][0] = Converter::template make<kFirst>(zero(i, 0), change_unit(i, 0, scale_words_[i][0]));
      converters[i][1] = Converter::template make<kSecond>(zero(i, 1), change_unit(i, 1, second));
    }
  }

  /// By what the sums of row 0 or 1 are multiplied before products of group `group` of the slab are added.
  __device__ __forceinline__ float ratio(int group, int row) const { return ratios_[group][row]; }
  /// The unit of the sums of row 0 or 1 when the products of the last taken groups are added.
  __device__ __forceinline__ float unit(int row) const { return units_[row]; }

 private:
  static constexpr bool kOneScaleWord = !kByN && !kGated;

  __device__ __forceinline__ void load_scales(uint32 (&words)[2], const char* src) const {
    if constexpr (kOneScaleWord) {
      asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(words[0]) : "l"(src));
    } else {
      words[0] = load_half(src);
      words[1] = load_half(src + (kGated ? args_.n : 4));
    }
  }
  static __device__ __forceinline__ uint32 load_half(const char* src) {
    uint16 bits;
    asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(bits) : "l"(src));
    return bits;
  }
  __device__ __forceinline__ void load_zeros(uint32 (&words)[2], const char* src) const {
    asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(words[0]) : "l"(src));
    if constexpr (kGated) asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(words[1]) : "l"(src + args_.n / 4));
  }
  /// `scale` is an fp16 in the low half. Returns a mask of the operands: 0 if the scale is zero.
  __device__ __forceinline__ uint32 change_unit(int group, int row, uint32 scale) {
    const float value = Pair<Half>::low(scale);
    const bool is_zero = value == 0.f;
    const float unit = is_zero ? units_[row] : value;
    // The product with the reciprocal of an equal unit may differ from 1, always in the same direction.
    ratios_[group][row] = unit == units_[row] ? 1.f : units_[row] * reciprocal_fast(unit);
    units_[row] = unit;
    return is_zero ? 0u : ~0u;
  }
  __device__ __forceinline__ uint32 zero(int group, int row) const {
    if constexpr (!kStoredZeros) return kZeroOffset;
    const uint32 word = zero_words_[group][kGated ? row : 0];
    return (word >> (shift_ + (kGated ? 0 : 4 * row)) & 15u) + kZeroOffset;
  }

  const PersistentGemmArguments& args_;
  const char* scales_;  ///< of group 0
  const char* zeros_ = nullptr;
  int shift_;  ///< of the first feature's zero in its word
  int group_;  ///< which is loaded next
  float units_[2] = {1.f, 1.f};
  float ratios_[kGroups][2];
  uint32 scale_words_[kGroups][2];
  uint32 zero_words_[kGroups][2];
};

}  // namespace cubit
