// Number format: words by k (w4_words_by_k.cuh) whose operands have their k's in order, for family sm90 where tiles
// have so many rows that putting their pairs into another order costs more.
//
// Lane (r, c) needs of each word the pair 2c, 2c + 1: one byte, so the lanes of a row read the same word and each takes
// a byte of it, twice into one register. The second nibble is 16 q there; the multiplication by 1/16 is in the
// instruction that takes off the zero.
//
// Interface: see w4_copied_words.cuh.
#pragma once

#include "copies.cuh"
#include "types.cuh"
#include "w4_values.cuh"
#include "w4_words_by_k.cuh"
#include "w4a16_gemm_lanes.h"

namespace cubit {

/// Pairs of neighbouring nibbles. `selector`: the byte in which they are, for both halves of the result.
template <class Element>
struct W4Neighbours;

template <>
struct W4Neighbours<Half> {
  /// -(1024 + zero) beside the first nibble, -(64 + zero) beside the second.
  template <int kOffset>
  static __device__ __forceinline__ uint32 zero(uint32 stored) {
    return 0xd400e400u + (kOffset + stored) * 0x00100001u;
  }
  static __device__ __forceinline__ uint32 pair(uint32 word, uint32 selector, uint32 zero) {
    constexpr uint32 kOneAndSixteenth = 0x2c003c00u;
    uint32 result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(insert(__byte_perm(word, 0, selector), 0x00f0000fu, 0x64006400u)), "r"(kOneAndSixteenth), "r"(zero));
    return result;
  }
};

/// A bf16 has too few bits for 16 q beside 128: the second nibble is shifted.
template <>
struct W4Neighbours<Bfloat16> {
  template <int kOffset>
  static __device__ __forceinline__ uint32 zero(uint32 stored) {
    return 0xc300c300u + (kOffset + stored) * 0x00010001u;
  }
  static __device__ __forceinline__ uint32 pair(uint32 word, uint32 selector, uint32 zero) {
    constexpr uint32 kOne = 0x3f803f80u;
    const uint32 bytes = __byte_perm(word, word >> 4, selector | 0x4400u);
    uint32 result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(insert(bytes, 0x000f000fu, 0x43004300u)), "r"(kOne), "r"(zero));
    return result;
  }
};

template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset>
struct W4BytesByK : W4WordsByK<Element, kWordsAt, kActivationsAt, kStoredZeros, kZeroOffset> {
  using Base = W4WordsByK<Element, kWordsAt, kActivationsAt, kStoredZeros, kZeroOffset>;
  using Neighbours = W4Neighbours<Element>;

  static constexpr int kBoxColumns = gemm_lanes::kStripColumns;
  static constexpr bool kPairsActivations = false;

  struct Places : Base::FactorPlaces {
    uint32 words;
    uint32 selector;  // of the lane's byte
  };

  static __device__ __forceinline__ Places places(int strip) {
    Places result;
    static_cast<typename Base::FactorPlaces&>(result) = Base::factor_places(lane_index(), strip);
    const gemm_lanes::Place at = gemm_lanes::shared_words_by_k(lane_index(), strip, 0);
    result.words = settled(kWordsAt(at.row, at.byte));
    result.selector = settled(0x1111u * (lane_index() % 4));
    return result;
  }

  /// [8 k's][column of the lane's four]
  template <int kCount>
  struct Words {
    uint32 of[4 * kCount][4];
    uint32 selector;

    __device__ __forceinline__ void operand(uint32 (&a)[4], int step, int tile, const GroupZeros& zeros) const {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[i] = Neighbours::pair(of[2 * step + i / 2][2 * tile + i % 2], selector, zeros.of[2 * tile + i % 2]);
    }
  };

  template <int kCount>
  static __device__ __forceinline__ void load_words(Words<kCount>& words, uint32 stage, const Places& places,
                                                    int first) {
    words.selector = places.selector;
#pragma unroll
    for (int i = 0; i < 4 * kCount; ++i) {
      // Swizzled by the row within 8: what changes are bits that the lane's place and the row's have in common.
      const gemm_lanes::Place at = gemm_lanes::shared_words_by_k(0, 0, 4 * first + i);
      load_shared(words.of[i], stage + (places.words ^ kWordsAt(at.row, at.byte)));  // access: loads of words
    }
  }

  static __device__ __forceinline__ void load_zeros(GroupZeros& zeros, uint32 row, const Places& places) {
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_shared(word, row + places.zeros);  // access: loads of zeros
    const uint32 nibbles = __byte_perm(word[0], 0, places.zero_selector);
#pragma unroll
    for (int i = 0; i < 4; ++i) zeros.of[i] = Neighbours::template zero<kZeroOffset>(nibbles >> (4 * i) & 15u);
  }
};

}  // namespace cubit
