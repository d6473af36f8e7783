// Number format of 8-bit weights packed along k: int32 [k / 4, n], and byte j of word (i, n) is k = 4i + j. Zeros, if
// stored, are int32 [k / group, n / 4], and byte j of word (·, i) is column 4i + j.
//
// The format resembles w4_words_by_k.cuh. A lane's 8 values along k of a step are two consecutive words of a column.
// Word p belongs to product p: its bytes 0 and 1 are one pair of the A operand, and its bytes 2 and 3 are the other.
// The pairs are neighbours along k, so the words of 8 loaded activations are the B operands as they are.
//
// Interface of a number format: see w4_words_by_k.cuh.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/w4_values.cuh"
#include "weight_format/w8_values.cuh"

namespace cubit {

template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset>
struct W8WordsByK {
  static constexpr int kBits = 8;
  static constexpr int kWordK = 4;
  static constexpr int kWordRows = gemm_lanes::kStageK / kWordK;
  static constexpr int kWordRowBytes = 4 * gemm_lanes::kBlockColumns;
  static constexpr int kZeroBytes = gemm_lanes::kBlockColumns;
  static constexpr int kCopyPeriod = 4;
  using Zeros = ByteZeros;
  static __device__ __forceinline__ int64 row_bytes(int n) { return 4 * static_cast<int64>(n); }
  static __device__ __forceinline__ int64 word_byte(int column) { return 4 * static_cast<int64>(column); }

  struct Places {
    // Offsets for both halves of the lane's 8 values along k. Two are needed, because the swizzle changes an address
    // bit between them.
    uint32 words[2];
    uint32 activations;
    uint32 scales;
    uint32 zeros;
  };

  static __device__ __forceinline__ Places places(int strip, int tile) {
    const int lane = lane_index();
    const gemm_lanes::Place low = gemm_lanes::byte_words_by_k(lane, strip, 0, 0);
    const gemm_lanes::Place high = gemm_lanes::byte_words_by_k(lane, strip, 0, 1);
    const gemm_lanes::Place activation = gemm_lanes::activations_by_k(lane, tile, 0);
    return {{settled(kWordsAt(low.row, low.byte)), settled(kWordsAt(high.row, high.byte))},
            settled(kActivationsAt(activation.row, activation.byte)),
            settled(gemm_lanes::scales_by_k(lane, strip, 0).byte),
            settled(gemm_lanes::byte_zeros(lane, strip, 0).byte)};
  }

  struct Weights {
    uint32 words[2][4];  // [half of the lane's 8 values along k][column]
  };

  static __device__ __forceinline__ void load_weights(Weights& weights, uint32 stage, const Places& places, int step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const gemm_lanes::Place at = gemm_lanes::byte_words_by_k(0, 0, step, half);
      const gemm_lanes::Place first = gemm_lanes::byte_words_by_k(0, 0, 0, half);
      const int distance = kWordsAt(at.row, at.byte) - kWordsAt(first.row, first.byte);
      load_shared(weights.words[half], stage + places.words[half] + distance);  // access: loads of words
    }
  }

  static __device__ __forceinline__ uint32 number(const Weights& weights, int column, int i) {
    return weights.words[i / 4][column] >> (8 * (i % 4)) & 255u;
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Weights& weights, const Zeros& zeros) {
    using Values = W8Values<Element>;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32 word = weights.words[kProduct][2 * kTile + i];
      const uint32 zero = zeros.of[2 * kTile + i];
      a[i] = Values::template pair<0>(word, zero);
      a[2 + i] = Values::template pair<1>(word, zero);
    }
  }

  static __device__ __forceinline__ void load_activations(uint32 (&b)[4], uint32 stage, const Places& places, int tile,
                                                          int step) {
    const gemm_lanes::Place at = gemm_lanes::activations_by_k(0, tile, step);
    load_shared(b, stage + places.activations + kActivationsAt(at.row, at.byte));  // access: loads of activations
  }

  static __device__ __forceinline__ void load_zeros(Zeros& zeros, uint32 row, const Places& places) {
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_shared(word, row + places.zeros);  // access: loads of zeros
#pragma unroll
    for (int i = 0; i < 4; ++i) zeros.of[i] = W8Values<Element>::template zero<kZeroOffset>(word[0] >> (8 * i) & 255u);
  }

  static __device__ __forceinline__ void load_scales(GroupScales& scales, uint32 row, const Places& places) {
    uint32 pairs[2];
    load_shared(pairs, row + places.scales);  // access: loads of scales
    unpack_scales(scales, pairs);
  }

  static __device__ __forceinline__ void arrange(float (&)[2][4]) {}
};

}  // namespace cubit
