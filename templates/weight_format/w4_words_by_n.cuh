// Number format of 4-bit weights packed along n: int32 [k, n / 8], and nibble j of word (k, i) is column 8i + order[j]
// with order = 0, 2, 4, 6, 1, 3, 5, 7. Zeros are int32 [k / group, n / 8] in the same order.
//
// ldmatrix.trans treats 16 bits, which are four columns, as one value. With r = lane / 4 and c = lane % 4, a register
// of lane (r, c) therefore holds four columns of k = 2c in its low half and the same columns of k = 2c + 1 in its high
// half. Nibbles i of both halves form a pair along k, of column 8 · (r / 2) + r % 2 + 2i of the strip. Nibble 2t is row
// r of mma tile t, and nibble 2t + 1 is row r + 8. Values along k keep their order, so activations are loaded as
// ordinary ldmatrix operands.
//
// Interface of a number format: see w4_words_by_k.cuh.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/w4_values.cuh"

namespace cubit {

template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset>
struct W4WordsByN {
  static_assert(kStoredZeros);
  static constexpr int kWordK = 1;
  static constexpr int kWordRows = gemm_lanes::kStageK;
  static constexpr int kWordRowBytes = gemm_lanes::kBlockColumns / 2;
  static constexpr int kZeroBytes = gemm_lanes::kZeroBytes;
  static constexpr int kCopyPeriod = 2;
  using Zeros = GroupZeros;
  static __device__ __forceinline__ int64 row_bytes(int n) { return n / 2; }
  static __device__ __forceinline__ int64 word_byte(int column) { return column / 2; }

  struct FactorPlaces {
    uint32 scales;
    uint32 zeros;
    uint32 odd_shift;  // 16 in lanes with odd columns, otherwise 0
  };
  struct WeightPlaces : FactorPlaces {
    uint32 words;
  };
  struct Places : WeightPlaces {
    // Offsets for even and odd steps. Two are needed, because the swizzle of 256-byte rows changes an address bit
    // between them.
    uint32 activations[2];
  };

  static __device__ __forceinline__ Places places(int strip, int tile) {
    const int lane = lane_index();
    const gemm_lanes::Place word = gemm_lanes::words_by_n(lane, strip, 0);
    const gemm_lanes::Place even = gemm_lanes::activations_by_n(lane, tile, 0);
    const gemm_lanes::Place odd = gemm_lanes::activations_by_n(lane, tile, 1);
    Places result;
    result.words = settled(kWordsAt(word.row, word.byte));
    result.activations[0] = settled(kActivationsAt(even.row, even.byte));
    result.activations[1] = settled(kActivationsAt(odd.row, odd.byte));
    static_cast<FactorPlaces&>(result) = factor_places(lane, strip);
    return result;
  }
  static __device__ __forceinline__ WeightPlaces weight_places(int strip) {
    const int lane = lane_index();
    const gemm_lanes::Place word = gemm_lanes::words_by_n(lane, strip, 0);
    WeightPlaces result;
    result.words = settled(kWordsAt(word.row, word.byte));
    static_cast<FactorPlaces&>(result) = factor_places(lane, strip);
    return result;
  }
  static __device__ __forceinline__ FactorPlaces factor_places(int lane, int strip) {
    return {settled(gemm_lanes::scales_by_n(lane, strip, 0).byte), settled(gemm_lanes::zeros(lane, strip, 0).byte),
            settled(lane / 4 % 2 * 16)};
  }

  struct Weights {
    uint32 matrices[4];  // each with 8 values along k
  };

  static __device__ __forceinline__ void load_weights(Weights& weights, uint32 stage, const WeightPlaces& places,
                                                      int step) {
    const gemm_lanes::Place at = gemm_lanes::words_by_n(0, 0, step);
    const uint32 row = stage + places.words + kWordsAt(at.row, at.byte);
    load_matrices_transposed(weights.matrices, row);  // access: ldmatrix.x4.trans of words
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Weights& weights, const GroupZeros& zeros) {
    a[0] = pair<2 * kTile>(weights.matrices[2 * kProduct], zeros);
    a[1] = pair<2 * kTile + 1>(weights.matrices[2 * kProduct], zeros);
    a[2] = pair<2 * kTile>(weights.matrices[2 * kProduct + 1], zeros);
    a[3] = pair<2 * kTile + 1>(weights.matrices[2 * kProduct + 1], zeros);
  }

  static __device__ __forceinline__ void load_activations(uint32 (&b)[4], uint32 stage, const Places& places, int tile,
                                                          int step) {
    const gemm_lanes::Place at = gemm_lanes::activations_by_n(0, tile, step);
    const gemm_lanes::Place first = gemm_lanes::activations_by_n(0, 0, step % 2);
    const int distance = kActivationsAt(at.row, at.byte) - kActivationsAt(first.row, first.byte);
    load_matrices(b, stage + places.activations[step % 2] + distance);  // access: ldmatrix.x4 of activations
  }

  static __device__ __forceinline__ void load_zeros(GroupZeros& zeros, uint32 row, const FactorPlaces& places) {
    uint32 word[1];
    load_shared(word, row + places.zeros);  // access: loads of zeros
    zeros = make_zeros<Element, kStoredZeros, kZeroOffset>(__byte_perm(word[0] >> places.odd_shift, 0, 0x1010));
  }

  static __device__ __forceinline__ void load_scales(GroupScales& scales, uint32 row, const FactorPlaces& places) {
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
