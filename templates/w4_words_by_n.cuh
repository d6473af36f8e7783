// Number format: words of 8 columns of one k, int32 [k, n / 8]; nibble j of word (k, i) is column 8i + order[j], order = 0, 2,
// 4, 6, 1, 3, 5, 7. Zeros int32 [k / group, n / 8] in the same order.
//
// ldmatrix.trans takes 16 bits for one value, hence four columns: a register of lane (r, c) holds those of k = 2c and 2c + 1
// side by side, and its nibbles t are pairs along k. Half-word r of a half's 8 is row r of the tiles: nibble t is tile t, that
// is column 8 (r / 2) + r % 2 + 2t. Activations are ldmatrix's own operand.
//
// Interface of a number format: see w4_words_by_k.cuh.
#pragma once

#include "copies.cuh"
#include "types.cuh"
#include "w4_values.cuh"
#include "w4a16_gemm_lanes.h"

namespace cubit {

template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset>
struct W4WordsByN {
  static_assert(kStoredZeros);
  static constexpr int kWordK = 1;
  static constexpr int kWordRows = gemm_lanes::kStageK;
  static constexpr int kWordRowBytes = gemm_lanes::kBlockColumns / 2;
  static __device__ __forceinline__ int64 row_bytes(int n) { return n / 2; }
  static __device__ __forceinline__ int64 word_byte(int column) { return column / 2; }

  struct Weights {
    uint32 matrices[2][4];  // [product][2 · half + (k / 8) % 2]
  };

  static __device__ __forceinline__ void load_weights(Weights& weights, uint32 words, int warp, int step) {
#pragma unroll
    for (int product = 0; product < 2; ++product) {
      const gemm_lanes::Place at = gemm_lanes::words_by_n(lane_index(), warp, 2 * step + product);
      const uint32 row = words + kWordsAt(at.row, at.byte);
      load_matrices_transposed(weights.matrices[product], row);  // access: ldmatrix.x4.trans of words
    }
  }

  template <int kProduct, int kTile>
  static __device__ __forceinline__ void operand(uint32 (&a)[4], const Weights& weights) {
    using Values = W4Values<Element>;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      a[half] = Values::template pair<kTile>(weights.matrices[kProduct][2 * half]);
      a[2 + half] = Values::template pair<kTile>(weights.matrices[kProduct][2 * half + 1]);
    }
  }

  static __device__ __forceinline__ void load_activations(uint32 (&b)[4], uint32 activations, int tile, int step) {
    const gemm_lanes::Place at = gemm_lanes::activations_by_n(lane_index(), tile, step);
    load_matrices(b, activations + kActivationsAt(at.row, at.byte));  // access: ldmatrix.x4 of activations
  }

  static __device__ __forceinline__ void load_factors(GroupFactors& factors, uint32 scales, uint32 zeros, int warp,
                                                      int group) {
    const int lane = lane_index();
    const int odd = lane / 4 % 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const gemm_lanes::Place at = gemm_lanes::scales_by_n(lane, warp, half, group);
      uint32 pairs[4];
      load_shared(pairs, scales + at.row * gemm_lanes::kScaleBytes + at.byte);  // access: loads of scales
      const gemm_lanes::Place zero = gemm_lanes::zeros(lane, warp, half, group);
      uint32 word[1];
      load_shared(word, zeros + zero.row * gemm_lanes::kZeroBytes + zero.byte);  // access: loads of zeros
      const uint32 nibbles = word[0] >> (16 * odd);
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        const float scale = Pair<Half>::low(pairs[tile] >> (16 * odd));
        set_factor<Element, kZeroOffset>(factors, half, tile, scale, nibbles >> (4 * tile));
      }
    }
  }

  /// Lanes r and r ^ 1 have the even and the odd columns of the same 8; each keeps four neighbours.
  static __device__ __forceinline__ void arrange(float (&block)[4][4]) {
    const uint32 odd = lane_index() / 4 % 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float first = __shfl_xor_sync(kFullWarp, choose(odd, block[0][i], block[2][i]), 4);
      const float second = __shfl_xor_sync(kFullWarp, choose(odd, block[1][i], block[3][i]), 4);
      const float kept[2] = {choose(odd, block[2][i], block[0][i]), choose(odd, block[3][i], block[1][i])};
      block[0][i] = choose(odd, first, kept[0]);
      block[1][i] = choose(odd, kept[0], first);
      block[2][i] = choose(odd, second, kept[1]);
      block[3][i] = choose(odd, kept[1], second);
    }
  }

 private:
  /// A selection for certain: the compiler would make branches of many, and put the shuffles into both.
  static __device__ __forceinline__ float choose(uint32 condition, float then, float otherwise) {
    float result;
    asm("{\n"
        ".reg .pred chosen;\n"
        "setp.ne.u32 chosen, %3, 0;\n"
        "selp.f32 %0, %1, %2, chosen;\n"
        "}"
        : "=f"(result)
        : "f"(then), "f"(otherwise), "r"(condition));
    return result;
  }
};

}  // namespace cubit
