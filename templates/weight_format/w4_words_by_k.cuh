// Weight operand of 4-bit weights packed along k: int32 [k / 8, n], and nibble j of word (i, n) is k = 8i + j. Zeros,
// if stored, are int32 [k / group, n / 8], and nibble j of word (·, i) is column 8i + j.
//
// A word is almost an mma operand: ANDs and shifts yield the pairs (j, j + 4) of values along k. The product does not
// depend on the order of values along k, as long as both operands have the same order. The activations' pairs are
// therefore selected in the order of the words (word_activations.cuh). A strip is 32 columns and has two mma tiles; a
// step is 32 values along k and has two products. With r = lane / 4 and c = lane % 4, lane (r, c) has words of columns
// 4r … 4r + 3 of a strip, in row c of a step's four rows of words. Column 4r + 2t is row r of mma tile t, and column 4r
// + 2t + 1 is row r + 8. Product p has the pairs (2p, 2p + 4) at k = 2c and 2c + 1, and (2p + 1, 2p + 5) at k = 2c + 8
// and 2c + 9.
//
// Interface of a weight operand of the loop with mma.sync (sm80_gemm.cuh). A strip has 32 columns, a step has 64 bytes
// of activations along k; a lane has four columns of a strip.
//   Arguments                          kernel arguments: GemmArguments and what the operand adds
//   Layer                              packed weights alone: see packed_layers.cuh
//   kStageGroups                       quantisation groups of a stage, each with zeros and scales (factors); at least 1
//   kIsOneGroup, kStagesFactors        one group spans all of k; stages have factors
//   kHalvesAreProducts                 product p of a step has values 16p … 16p + 15 along k; only for groups of 16
//   kDequantises                       operands are made by dequantise(): see w4_activation_order.cuh
//   unrolls_groups(row tiles)          whether the registers suffice to unroll the loop over the groups of a stage
//   WordCopies<Block>, FactorCopies<Block>     copies of a stage: see packed_stage_copies.cuh
//   Places, places(lane, strip)        offsets in a stage where a lane's accesses to words begin, for a strip of the
//                                      block's columns; all other accesses are at constant distances
//   FactorPlaces, factor_places(lane, strip)   the same for factors, from the beginning of a group's row on
//   Words, load_words(words, stage, places, step)                 loads a step's words from shared memory
//   Zeros, load_zeros(zeros, row, places)    a group's zeros of the lane's columns; `row` is the shared-memory address
//                                      of the group's row of zeros
//   operand<product, tile>(a, words, zeros)                       the A operand of one of a step's two products and one
//                                                                 of a strip's two tiles: 16 columns, 32 bytes along k
//   Scales, load_scales(scales, row, places)   a group's scales of the lane's columns; `row` is the address of the row
//                                      of scales
//   arrange(sums of 8 rows)            reorders them: element [i / 2][2 · (i % 2) + row % 2] becomes column
//                                      first_column + i
// Layout of packed tensors, for the copies:
//   kWordRows, kWordK, kWordRowBytes   rows of words per stage, values along k per row, bytes per row
//   kZeroBytes                         bytes of a group's row of zeros, which 32 lanes copy
//   kCopyPeriod                        number of copies of words after which the swizzle of their addresses repeats
//   word_at(row, byte)                 offset of a byte of the words in a stage
//   row_bytes(n), word_byte(column)    stride of rows in the tensor, and offset of a column's word in a row
//   kBits, pair(words, column, j)      formats by k, for w4_activation_order.cuh: 1024 + pair j of a column's weights
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/packed_stage_copies.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

/// kWordsAt maps (row, byte) to an offset in the words of a stage. kGroup: values along k per quantisation group; 0 if
/// one group spans all of k. Without kStoredZeros every zero is kZeroOffset.
template <class Element, int (*kWordsAt)(int, int), int kGroup, bool kStoredZeros, int kZeroOffset,
          class LayerType = OneLayer>
struct W4WordsByK : PackedGroups<kGroup, LayerType> {
  static constexpr bool kDequantises = false;
  static constexpr bool kHalvesAreProducts = false;
  static constexpr int kBits = 4;
  static constexpr int kWordK = 8;
  static constexpr int kWordRows = gemm_lanes::kStageK / kWordK;
  static constexpr int kWordRowBytes = 4 * gemm_lanes::kBlockColumns;
  static constexpr int kZeroBytes = gemm_lanes::kZeroBytes;
  static constexpr int kCopyPeriod = 2;
  using Zeros = GroupZeros;
  using Scales = GroupScales;
  template <class Block>
  using WordCopies = PackedWordCopies<W4WordsByK, Block>;
  template <class Block>
  using FactorCopies = PackedFactorCopies<W4WordsByK, Block, kGroup, kStoredZeros>;

  static constexpr __device__ bool unrolls_groups(int /*row tiles*/) { return true; }
  static constexpr __device__ int word_at(int row, int byte) { return kWordsAt(row, byte); }
  static __device__ __forceinline__ int64 row_bytes(int n) { return 4 * static_cast<int64>(n); }
  static __device__ __forceinline__ int64 word_byte(int column) { return 4 * static_cast<int64>(column); }

  struct FactorPlaces {
    uint32 scales;
    uint32 zeros;
    uint32 zero_selector;  // byte selector of the lane's half of a word of zeros, twice
  };
  using Places = uint32;

  static __device__ __forceinline__ Places places(int lane, int strip) {
    const gemm_lanes::Place word = gemm_lanes::words_by_k(lane, strip, 0);
    return settled(kWordsAt(word.row, word.byte));
  }
  static __device__ __forceinline__ FactorPlaces factor_places(int lane, int strip) {
    return {settled(gemm_lanes::scales_by_k(lane, strip, 0).byte), settled(gemm_lanes::zeros(lane, strip, 0).byte),
            settled(lane / 4 % 2 == 0 ? 0x1010u : 0x3232u)};
  }

  struct Words {
    uint32 of[4];
  };

  static __device__ __forceinline__ void load_words(Words& words, uint32 stage, Places places, int step) {
    const gemm_lanes::Place at = gemm_lanes::words_by_k(0, 0, step);
    load_shared(words.of, stage + places + kWordsAt(at.row, at.byte));  // access: loads of words
  }

  static __device__ __forceinline__ uint32 pair(const Words& words, int column, int j) {
    const uint32 near = j < 2 ? words.of[column] : words.of[column] >> 8;
    if (j % 2 == 0) return insert(near, 0x000f000fu, 0x64006400u);
    uint32 result;  // 1024 + 16 q, divided by 16, and 960 more
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(insert(near, 0x00f000f0u, 0x64006400u)), "r"(0x2c002c00u), "r"(0x63806380u));
    return result;
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Words& words, const GroupZeros& zeros) {
    using Values = W4Values<Element>;
    a[0] = Values::template pair<2 * kProduct, 2 * kTile>(words.of[2 * kTile], zeros);
    a[1] = Values::template pair<2 * kProduct, 2 * kTile + 1>(words.of[2 * kTile + 1], zeros);
    a[2] = Values::template pair<2 * kProduct + 1, 2 * kTile>(words.of[2 * kTile], zeros);
    a[3] = Values::template pair<2 * kProduct + 1, 2 * kTile + 1>(words.of[2 * kTile + 1], zeros);
  }

  static __device__ __forceinline__ void load_zeros(GroupZeros& zeros, uint32 row, const FactorPlaces& places) {
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_shared(word, row + places.zeros);  // access: loads of zeros
    zeros = make_zeros<Element, kStoredZeros, kZeroOffset>(__byte_perm(word[0], 0, places.zero_selector));
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
