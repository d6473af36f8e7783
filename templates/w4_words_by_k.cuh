// Number format: words of 8 nibbles along k of one column, int32 [k / 8, n]; nibble j of word (i, n) is k = 8i + j. Zeros,
// where stored, int32 [k / group, n / 8]: nibble j of word (·, i) is column 8i + j.
//
// A word is already an operand: pairs (j, j + 4) of k, in the order that two ANDs and shifts find them. The contraction
// does not care which k stands where as long as both operands agree, so the activations' pairs are picked in that order.
// Lane (r, c) has words of the columns 4r … 4r + 3 of each half, row c of a step's four: column 4r + i is row r of tile i.
//
// Interface of a number format:
//   kWordRows, kWordK, kWordRowBytes   rows of words of a stage, k's that a row stands for, bytes of a row
//   row_bytes(n)                       bytes from row to row in the tensor, and word_byte(column) within one
//   Weights, load_weights(weights, words, warp, step)             a step's words, from shared memory
//   operand<product, tile>(a, weights)                            the A operand of 16 columns and 16 k's
//   load_activations(b, activations, tile, step)                  the B operands of 8 rows and a step's two products
//   load_factors(factors, scales, zeros, warp, group)
//   arrange(accumulators of 8 rows)    afterwards element [i][2 · half + row % 2] is column first_column + i of a half
#pragma once

#include "copies.cuh"
#include "types.cuh"
#include "w4_values.cuh"
#include "w4a16_gemm_lanes.h"

namespace cubit {

/// kWordsAt, kActivationsAt (row, byte): offsets in a stage's tiles. kStoredZeros: else every zero is kZeroOffset.
template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset>
struct W4WordsByK {
  static constexpr int kWordK = 8;
  static constexpr int kWordRows = gemm_lanes::kStageK / kWordK;
  static constexpr int kWordRowBytes = 4 * gemm_lanes::kBlockColumns;
  static __device__ __forceinline__ int64 row_bytes(int n) { return 4 * static_cast<int64>(n); }
  static __device__ __forceinline__ int64 word_byte(int column) { return 4 * static_cast<int64>(column); }

  struct Weights {
    uint32 words[2][4];  // [half][tile]
  };

  static __device__ __forceinline__ void load_weights(Weights& weights, uint32 words, int warp, int step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const gemm_lanes::Place at = gemm_lanes::words_by_k(lane_index(), warp, half, step);
      load_shared(weights.words[half], words + kWordsAt(at.row, at.byte));  // access: loads of words
    }
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Weights& weights) {
    using Values = W4Values<Element>;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32 word = weights.words[half][kTile];
      a[half] = Values::template pair<2 * kProduct>(word);
      a[2 + half] = Values::template pair<2 * kProduct + 1>(word);
    }
  }

  static __device__ __forceinline__ void load_activations(uint32 (&b)[4], uint32 activations, int tile, int step) {
    const gemm_lanes::Place at = gemm_lanes::activations_by_k(lane_index(), tile, step);
    uint32 pairs[4];
    load_shared(pairs, activations + kActivationsAt(at.row, at.byte));  // access: loads of activations
    b[0] = __byte_perm(pairs[0], pairs[2], 0x5410);                     // 0 and 4
    b[1] = __byte_perm(pairs[0], pairs[2], 0x7632);                     // 1 and 5
    b[2] = __byte_perm(pairs[1], pairs[3], 0x5410);
    b[3] = __byte_perm(pairs[1], pairs[3], 0x7632);
  }

  static __device__ __forceinline__ void load_factors(GroupFactors& factors, uint32 scales, uint32 zeros, int warp,
                                                      int group) {
    const int lane = lane_index();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const gemm_lanes::Place at = gemm_lanes::scales_by_k(lane, warp, half, group);
      uint32 pairs[2];
      load_shared(pairs, scales + at.row * gemm_lanes::kScaleBytes + at.byte);  // access: loads of scales
      uint32 word[1] = {0};
      if constexpr (kStoredZeros) {
        const gemm_lanes::Place zero = gemm_lanes::zeros(lane, warp, half, group);
        load_shared(word, zeros + zero.row * gemm_lanes::kZeroBytes + zero.byte);  // access: loads of zeros
      }
      const uint32 nibbles = word[0] >> (lane / 4 % 2 * 16);
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        const uint32 pair = pairs[tile / 2];
        const float scale = tile % 2 == 0 ? Pair<Half>::low(pair) : Pair<Half>::high(pair);
        set_factor<Element, kZeroOffset>(factors, half, tile, scale, nibbles >> (4 * tile));
      }
    }
  }

  static __device__ __forceinline__ void arrange(float (&)[4][4]) {}
};

}  // namespace cubit
