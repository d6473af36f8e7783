// Weight operand of 8-bit weights packed along k: int32 [k / 4, n], and byte j of word (i, n) is k = 4i + j. Zeros, if
// stored, are int32 [k / group, n / 4], and byte j of word (·, i) is column 4i + j.
//
// The format resembles w4_words_by_k.cuh. A lane's 8 values along k of a step are two consecutive words of a column.
// Word p belongs to product p: its bytes 0 and 1 are one pair of the A operand, and its bytes 2 and 3 are the other.
// The pairs are neighbours along k, so the words of 8 loaded activations are the B operands as they are.
//
// Interface of a weight operand: see w4_words_by_k.cuh.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/packed_stage_copies.cuh"
#include "weight_format/w4_values.cuh"
#include "weight_format/w8_values.cuh"

namespace cubit {

template <class Element, int (*kWordsAt)(int, int), int kGroup, bool kStoredZeros, int kZeroOffset,
          class LayerType = OneLayer>
struct W8WordsByK : PackedGroups<kGroup, LayerType> {
  static constexpr bool kDequantises = false;
  static constexpr bool kHalvesAreProducts = false;
  static constexpr int kBits = 8;
  static constexpr int kWordK = 4;
  static constexpr int kWordRows = gemm_lanes::kStageK / kWordK;
  static constexpr int kWordRowBytes = 4 * gemm_lanes::kBlockColumns;
  static constexpr int kZeroBytes = gemm_lanes::kBlockColumns;
  static constexpr int kCopyPeriod = 4;
  using Zeros = ByteZeros;
  using Scales = GroupScales;
  template <class Block>
  using WordCopies = PackedWordCopies<W8WordsByK, Block>;
  template <class Block>
  using FactorCopies = PackedFactorCopies<W8WordsByK, Block, kGroup, kStoredZeros>;

  static constexpr __device__ bool unrolls_groups(int /*row tiles*/) { return true; }
  static constexpr __device__ int word_at(int row, int byte) { return kWordsAt(row, byte); }
  static __device__ __forceinline__ int64 row_bytes(int n) { return 4 * static_cast<int64>(n); }
  static __device__ __forceinline__ int64 word_byte(int column) { return 4 * static_cast<int64>(column); }

  struct FactorPlaces {
    uint32 scales;
    uint32 zeros;
  };
  struct Places {
    // Offsets for both halves of the lane's 8 values along k. Two are needed, because the swizzle changes an address
    // bit between them.
    uint32 words[2];
  };

  static __device__ __forceinline__ Places places(int lane, int strip) {
    const gemm_lanes::Place low = gemm_lanes::byte_words_by_k(lane, strip, 0, 0);
    const gemm_lanes::Place high = gemm_lanes::byte_words_by_k(lane, strip, 0, 1);
    return {{settled(kWordsAt(low.row, low.byte)), settled(kWordsAt(high.row, high.byte))}};
  }
  static __device__ __forceinline__ FactorPlaces factor_places(int lane, int strip) {
    return {settled(gemm_lanes::scales_by_k(lane, strip, 0).byte),
            settled(gemm_lanes::byte_zeros(lane, strip, 0).byte)};
  }

  struct Words {
    uint32 of[2][4];  // [half of the lane's 8 values along k][column]
  };

  static __device__ __forceinline__ void load_words(Words& words, uint32 stage, const Places& places, int step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const gemm_lanes::Place at = gemm_lanes::byte_words_by_k(0, 0, step, half);
      const gemm_lanes::Place first = gemm_lanes::byte_words_by_k(0, 0, 0, half);
      const int distance = kWordsAt(at.row, at.byte) - kWordsAt(first.row, first.byte);
      load_shared(words.of[half], stage + places.words[half] + distance);  // access: loads of words
    }
  }

  static __device__ __forceinline__ uint32 pair(const Words& words, int column, int j) {
    return __byte_perm(words.of[j / 2][column], 0x64646464u, j % 2 == 0 ? 0x4140 : 0x4342);
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Words& words, const Zeros& zeros) {
    using Values = W8Values<Element>;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32 word = words.of[kProduct][2 * kTile + i];
      const uint32 zero = zeros.of[2 * kTile + i];
      a[i] = Values::template pair<0>(word, zero);
      a[2 + i] = Values::template pair<1>(word, zero);
    }
  }

  static __device__ __forceinline__ void load_zeros(Zeros& zeros, uint32 row, const FactorPlaces& places) {
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_shared(word, row + places.zeros);  // access: loads of zeros
#pragma unroll
    for (int i = 0; i < 4; ++i) zeros.of[i] = W8Values<Element>::template zero<kZeroOffset>(word[0] >> (8 * i) & 255u);
  }

  static __device__ __forceinline__ void load_scales(Scales& scales, uint32 row, const FactorPlaces& places) {
    uint32 pairs[2];
    load_shared(pairs, row + places.scales);  // access: loads of scales
    unpack_scales(scales, pairs);
  }

  template <class Sum>
  static __device__ __forceinline__ void arrange(Sum (&)[2][4]) {}
};

}  // namespace cubit
