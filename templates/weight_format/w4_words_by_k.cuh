// Number format of 4-bit weights packed along k: int32 [k / 8, n], and nibble j of word (i, n) is k = 8i + j. Zeros, if
// stored, are int32 [k / group, n / 8], and nibble j of word (·, i) is column 8i + j.
//
// A word is almost an mma operand: ANDs and shifts yield the pairs (j, j + 4) of values along k. The product does not
// depend on the order of values along k, as long as both operands have the same order. The activations' pairs are
// therefore selected in the order of the words. A strip is 32 columns and has two mma tiles; a step is 32 values along
// k and has two products. With r = lane / 4 and c = lane % 4, lane (r, c) has words of columns 4r … 4r + 3 of a strip,
// in row c of a step's four rows of words. Column 4r + 2t is row r of mma tile t, and column 4r + 2t + 1 is row r + 8.
// Product p has the pairs (2p, 2p + 4) at k = 2c and 2c + 1, and (2p + 1, 2p + 5) at k = 2c + 8 and 2c + 9.
//
// Interface of a number format:
//   kWordRows, kWordK, kWordRowBytes   rows of words per stage, values along k per row, bytes per row
//   kZeroBytes                         bytes of a group's row of zeros, which 32 lanes copy
//   kCopyPeriod                        number of copies of words after which the swizzle of their addresses repeats
//   row_bytes(n), word_byte(column)    stride of rows in the tensor, and offset of a column's word in a row
//   Places, places(strip, tile)        offsets in a stage where a lane's accesses begin, for a strip of the block's
//                                      columns and rows from 8 · tile on; all other accesses are at constant distances
//   Zeros                              zeros of a lane's four columns in one group
//   Weights, load_weights(weights, stage, places, step)           loads a step's words from shared memory
//   operand<product, tile>(a, weights, zeros)                     the A operand of one of a step's two products and one
//                                                                 of a strip's two tiles: 16 columns, 16 values along k
//   load_activations(b, stage, places, tile, step)                the B operands of 8 rows for both products of a step;
//                                                                 `stage` is the address of the stage's activations
//   load_zeros(zeros, row, places)     a group's zeros of the lane's columns; `row` is the shared-memory address of the
//                                      group's row of zeros
//   load_scales(scales, row, places)   a group's scales of the lane's columns; `row` is the address of the row of
//                                      scales
//   kBits, number(weights, column, i)  formats by k, for w4_activation_order.cuh: weight i of a column's 8
//   arrange(accumulators of 8 rows)    reorders them: element [i / 2][2 · (i % 2) + row % 2] becomes column
//                                      first_column + i
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/w4_values.cuh"

namespace cubit {

/// kWordsAt and kActivationsAt map (row, byte) to offsets in the tiles of a stage. Without kStoredZeros every zero is
/// kZeroOffset.
template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset>
struct W4WordsByK {
  static constexpr int kBits = 4;
  static constexpr int kWordK = 8;
  static constexpr int kWordRows = gemm_lanes::kStageK / kWordK;
  static constexpr int kWordRowBytes = 4 * gemm_lanes::kBlockColumns;
  static constexpr int kZeroBytes = gemm_lanes::kZeroBytes;
  static constexpr int kCopyPeriod = 2;
  using Zeros = GroupZeros;
  static __device__ __forceinline__ int64 row_bytes(int n) { return 4 * static_cast<int64>(n); }
  static __device__ __forceinline__ int64 word_byte(int column) { return 4 * static_cast<int64>(column); }

  struct FactorPlaces {
    uint32 scales;
    uint32 zeros;
    uint32 zero_selector;  // byte selector of the lane's half of a word of zeros, twice
  };
  struct Places : FactorPlaces {
    uint32 words;
    uint32 activations;
  };

  static __device__ __forceinline__ Places places(int strip, int tile) {
    const int lane = lane_index();
    const gemm_lanes::Place word = gemm_lanes::words_by_k(lane, strip, 0);
    const gemm_lanes::Place activation = gemm_lanes::activations_by_k(lane, tile, 0);
    Places result;
    result.words = settled(kWordsAt(word.row, word.byte));
    result.activations = settled(kActivationsAt(activation.row, activation.byte));
    static_cast<FactorPlaces&>(result) = factor_places(lane, strip);
    return result;
  }
  static __device__ __forceinline__ FactorPlaces factor_places(int lane, int strip) {
    return {settled(gemm_lanes::scales_by_k(lane, strip, 0).byte), settled(gemm_lanes::zeros(lane, strip, 0).byte),
            settled(lane / 4 % 2 == 0 ? 0x1010u : 0x3232u)};
  }

  struct Weights {
    uint32 words[4];
  };

  static __device__ __forceinline__ void load_weights(Weights& weights, uint32 stage, const Places& places, int step) {
    const gemm_lanes::Place at = gemm_lanes::words_by_k(0, 0, step);
    load_shared(weights.words, stage + places.words + kWordsAt(at.row, at.byte));  // access: loads of words
  }

  static __device__ __forceinline__ uint32 number(const Weights& weights, int column, int i) {
    return weights.words[column] >> (4 * i) & 15u;
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Weights& weights, const GroupZeros& zeros) {
    using Values = W4Values<Element>;
    a[0] = Values::template pair<2 * kProduct, 2 * kTile>(weights.words[2 * kTile], zeros);
    a[1] = Values::template pair<2 * kProduct, 2 * kTile + 1>(weights.words[2 * kTile + 1], zeros);
    a[2] = Values::template pair<2 * kProduct + 1, 2 * kTile>(weights.words[2 * kTile], zeros);
    a[3] = Values::template pair<2 * kProduct + 1, 2 * kTile + 1>(weights.words[2 * kTile + 1], zeros);
  }

  static __device__ __forceinline__ void load_activations(uint32 (&b)[4], uint32 stage, const Places& places, int tile,
                                                          int step) {
    const gemm_lanes::Place at = gemm_lanes::activations_by_k(0, tile, step);
    uint32 pairs[4];
    load_shared(pairs, stage + places.activations + kActivationsAt(at.row, at.byte));  // access: loads of activations
    pick_pairs(b, pairs);
  }
  /// Selects the B operand pairs (j, j + 4) from 8 neighbouring values along k.
  static __device__ __forceinline__ void pick_pairs(uint32 (&b)[4], const uint32 (&pairs)[4]) {
    b[0] = __byte_perm(pairs[0], pairs[2], 0x5410);  // values 0 and 4
    b[1] = __byte_perm(pairs[0], pairs[2], 0x7632);  // values 1 and 5
    b[2] = __byte_perm(pairs[1], pairs[3], 0x5410);
    b[3] = __byte_perm(pairs[1], pairs[3], 0x7632);
  }

  static __device__ __forceinline__ void load_zeros(GroupZeros& zeros, uint32 row, const FactorPlaces& places) {
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_shared(word, row + places.zeros);  // access: loads of zeros
    zeros = make_zeros<Element, kStoredZeros, kZeroOffset>(__byte_perm(word[0], 0, places.zero_selector));
  }

  static __device__ __forceinline__ void load_scales(GroupScales& scales, uint32 row, const FactorPlaces& places) {
    uint32 pairs[2];
    load_shared(pairs, row + places.scales);  // access: loads of scales
    unpack_scales(scales, pairs);
  }

  static __device__ __forceinline__ void arrange(float (&)[2][4]) {}
};

}  // namespace cubit
