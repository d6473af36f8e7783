// Scales and zeros of a lane's two features in the persistent GEMM, group by group along k.
//
// Lanes read scales and zeros from global memory into registers. The loads of a slab's groups are issued at least one
// slab before the factors are used. Groups beyond the last one are the last group again: their activations are zeros.
//
// The lane's second feature is the neighbour (by k) or the next but one (by n) of the first feature, in the same word
// of zeros; if gated, it is the up-projection feature, n / 2 columns away.
#pragma once

#include "core/types.cuh"
#include "kernels/persistent_gemm_arguments.h"
#include "weight_format/w4_scaled_values.cuh"

namespace cubit {

/// kGroups: groups of a slab. kZeroOffset: difference between a zero and its stored nibble, or every zero if none are
/// stored.
template <class Element, int kGroups, bool kStoredZeros, int kZeroOffset, bool kByN, bool kGated>
class W4GroupFactors {
 public:
  using Factor = W4Factor<Element>;

  /// `column`: the lane's first feature, as a column of the weights. Columns outside the weights are replaced by others
  /// of the same place in their word.
  __device__ __forceinline__ W4GroupFactors(const PersistentGemmArguments& args, int column, int group)
      : left_(args.groups - 1 - group), columns_(args.n) {
    const int place = column % 8;
    const int64 first = static_cast<int64>(group) * args.n + min(column, (kGated ? args.n / 2 : args.n) - 8 + place);
    scales_ = static_cast<const char*>(args.scales) + 2 * first;
    if (kStoredZeros) zeros_ = static_cast<const char*>(args.qzeros) + first / 8 * 4;
    // The nibbles of a word along n are of columns 0, 2, 4, 6, 1, 3, 5, 7.
    shift_ = 4 * (kByN ? place % 2 * 4 + place / 2 : place);
  }

  /// Starts the loads of the next slab's groups.
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      load_scales(scale_words_[i]);
      if constexpr (kStoredZeros) load_zeros(zero_words_[i]);
      if (left_ <= 0) continue;
      --left_;
      scales_ += 2 * columns_;
      zeros_ += columns_ / 2;
    }
  }

  /// Makes factors of what the last fetch() has loaded. kFirst and kSecond: how the operand's pairs of the two features
  /// are stored.
  template <NibblePair kFirst, NibblePair kSecond>
  __device__ __forceinline__ void take(Factor (&factors)[kGroups][2]) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      factors[i][0] = Factor::template make<kFirst>(scale_words_[i][0], zero(i, 0));
      factors[i][1] =
          Factor::template make<kSecond>(kOneScaleWord ? scale_words_[i][0] >> 16 : scale_words_[i][1], zero(i, 1));
    }
  }

 private:
  static constexpr bool kOneScaleWord = !kByN && !kGated;

  __device__ __forceinline__ void load_scales(uint32 (&words)[2]) const {
    if constexpr (kOneScaleWord) {
      asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(words[0]) : "l"(scales_));
    } else {
      words[0] = load_half(scales_);
      words[1] = load_half(scales_ + (kGated ? columns_ : 4));
    }
  }
  static __device__ __forceinline__ uint32 load_half(const char* src) {
    uint16 bits;
    asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(bits) : "l"(src));
    return bits;
  }
  __device__ __forceinline__ void load_zeros(uint32 (&words)[2]) const {
    asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(words[0]) : "l"(zeros_));
    if constexpr (kGated) asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(words[1]) : "l"(zeros_ + columns_ / 4));
  }
  __device__ __forceinline__ uint32 zero(int group, int row) const {
    if constexpr (!kStoredZeros) return kZeroOffset;
    const uint32 word = zero_words_[group][kGated ? row : 0];
    return (word >> (shift_ + (kGated ? 0 : 4 * row)) & 15u) + kZeroOffset;
  }

  const char* scales_;
  const char* zeros_ = nullptr;
  int shift_;      ///< of the first feature's zero in its word
  int left_;       ///< groups behind the one that is loaded next
  int64 columns_;  ///< columns of the weights
  uint32 scale_words_[kGroups][2];
  uint32 zero_words_[kGroups][2];
};

}  // namespace cubit
