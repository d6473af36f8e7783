// Weight operand of 4-bit weights packed along n: int32 [k, n / 8], and nibble j of word (k, i) is column 8i + order[j]
// with order = 0, 2, 4, 6, 1, 3, 5, 7. Zeros are int32 [k / group, n / 8] in the same order.
//
// ldmatrix.trans treats 16 bits, which are four columns, as one value. With r = lane / 4 and c = lane % 4, a register
// of lane (r, c) therefore holds four columns of k = 2c in its low half and the same columns of k = 2c + 1 in its high
// half. Nibbles i of both halves form a pair along k, of column 8 · (r / 2) + r % 2 + 2i of the strip. Nibble 2t is row
// r of mma tile t, and nibble 2t + 1 is row r + 8. Values along k keep their order (matrix_activations.cuh).
//
// Interface of a weight operand: see w4_words_by_k.cuh.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/packed_stage_copies.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

template <class Element, int (*kWordsAt)(int, int), int kGroup, bool kStoredZeros, int kZeroOffset,
          class LayerType = OneLayer>
struct W4WordsByN : PackedGroups<kGroup, LayerType> {
  static_assert(kStoredZeros);
  static constexpr bool kDequantises = false;
  static constexpr bool kHalvesAreProducts = true;
  static constexpr int kWordK = 1;
  static constexpr int kWordRows = gemm_lanes::kStageK;
  static constexpr int kWordRowBytes = gemm_lanes::kBlockColumns / 2;
  static constexpr int kZeroBytes = gemm_lanes::kZeroBytes;
  static constexpr int kCopyPeriod = 2;
  using Zeros = GroupZeros;
  using Scales = GroupScales;
  template <class Block>
  using WordCopies = PackedWordCopies<W4WordsByN, Block>;
  template <class Block>
  using FactorCopies = PackedFactorCopies<W4WordsByN, Block, kGroup, kStoredZeros>;

  /// With 16 rows and two groups the loop would spill.
  static constexpr __device__ bool unrolls_groups(int row_tiles) {
    return row_tiles != 2 || PackedGroups<kGroup>::kStageGroups != 2;
  }
  static constexpr __device__ int word_at(int row, int byte) { return kWordsAt(row, byte); }
  static __device__ __forceinline__ int64 row_bytes(int n) { return n / 2; }
  static __device__ __forceinline__ int64 word_byte(int column) { return column / 2; }

  struct FactorPlaces {
    uint32 scales;
    uint32 zeros;
    uint32 odd_shift;  // 16 in lanes with odd columns, otherwise 0
  };
  using Places = uint32;

  static __device__ __forceinline__ Places places(int lane, int strip) {
    const gemm_lanes::Place word = gemm_lanes::words_by_n(lane, strip, 0);
    return settled(kWordsAt(word.row, word.byte));
  }
  static __device__ __forceinline__ FactorPlaces factor_places(int lane, int strip) {
    return {settled(gemm_lanes::scales_by_n(lane, strip, 0).byte), settled(gemm_lanes::zeros(lane, strip, 0).byte),
            settled(lane / 4 % 2 * 16)};
  }

  struct Words {
    uint32 matrices[4];  // each with 8 values along k
  };

  static __device__ __forceinline__ void load_words(Words& words, uint32 stage, Places places, int step) {
    const gemm_lanes::Place at = gemm_lanes::words_by_n(0, 0, step);
    const uint32 row = stage + places + kWordsAt(at.row, at.byte);
    load_matrices_transposed(words.matrices, row);  // access: ldmatrix.x4.trans of words
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Words& words, const GroupZeros& zeros) {
    a[0] = pair<2 * kTile>(words.matrices[2 * kProduct], zeros);
    a[1] = pair<2 * kTile + 1>(words.matrices[2 * kProduct], zeros);
    a[2] = pair<2 * kTile>(words.matrices[2 * kProduct + 1], zeros);
    a[3] = pair<2 * kTile + 1>(words.matrices[2 * kProduct + 1], zeros);
  }

  static __device__ __forceinline__ void load_zeros(GroupZeros& zeros, uint32 row, const FactorPlaces& places) {
    uint32 word[1];
    load_shared(word, row + places.zeros);  // access: loads of zeros
    zeros = make_zeros<Element, kStoredZeros, kZeroOffset>(__byte_perm(word[0] >> places.odd_shift, 0, 0x1010));
  }

  static __device__ __forceinline__ void load_scales(Scales& scales, uint32 row, const FactorPlaces& places) {
    uint32 pairs[4];
    load_shared(pairs, row + places.scales);  // access: loads of scales
#pragma unroll
    for (int i = 0; i < 4; ++i) scales.of[i] = Pair<Half>::low(pairs[i] >> places.odd_shift);
  }

  /// Lanes (r, c) with even r have the even columns of 8 columns, and lanes (r + 1, c) have the odd columns. The two
  /// lanes exchange values, so that the lane with even r has the first four columns and the other lane has the last
  /// four. Whole warps call the function.
  static __device__ __forceinline__ void arrange(float (&block)[2][4]) {
    const uint32 odd = lane_index() / 4 % 2;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float(&first)[4] = block[0];
      float(&last)[4] = block[1];
      const float others[2] = {__shfl_xor_sync(kFullWarp, select_value(odd, first[row], last[row]), 4),
                               __shfl_xor_sync(kFullWarp, select_value(odd, first[2 + row], last[2 + row]), 4)};
      const float kept[2] = {select_value(odd, last[row], first[row]),
                             select_value(odd, last[2 + row], first[2 + row])};
      first[row] = select_value(odd, others[0], kept[0]);
      first[2 + row] = select_value(odd, kept[0], others[0]);
      last[row] = select_value(odd, others[1], kept[1]);
      last[2 + row] = select_value(odd, kept[1], others[1]);
    }
  }

 private:
  template <int kIndex>
  static __device__ __forceinline__ uint32 pair(uint32 matrix, const GroupZeros& zeros) {
    return W4Values<Element>::template pair<kIndex, kIndex>(matrix, zeros);
  }
};

}  // namespace cubit
