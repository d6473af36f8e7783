// Number formats of 4-bit weights for family sm90, whose stages are filled by TMA box copies.
//
// With wgmma, the tensor cores read the activations from shared memory. Packed words by k need their activations in
// another order along k, so the activations are reordered, either by each block or once per launch.
//
// Order by k (w4_words_by_k.cuh), with r = lane / 4 and c = lane % 4: a step is 32 values along k and has two products
// p = 0 and 1 of 16 values. An even step s and the next step have 8 rows of words, that is 64 values along k. With
// kSpread, lane (r, c) takes the word of row 2c in the even step, and the word of row 2c + 1 in the next step. Position
// 2c + h of product p of step s, with h = 0 or 1, therefore is value 8 (2c + s % 2) + 2p + 4h of the 64. Position
// 8 + 2c + h is the next value. Without kSpread the rows of a step are neighbours, and position 2c + h is value
// 8 (4 (s % 2) + c) + 2p + 4h. By n (w4_words_by_n.cuh), values along k keep their order.
//
// Interface of these formats: kWordRows, kWordK, load_zeros, load_scales and arrange as in w4_words_by_k.cuh;
// places(strip); and
//   kBoxColumns                      columns per TMA box of words, in a block of 256 columns
//   kNeedsReorder                    whether wgmma needs reordered activations
//   reorder_in_shared(tile, row, byte)          reorders 64 values along k of a row of activations, in place
//   vector_of_lane, reorder_in_registers        reorder 64 values along k in the registers of eight lanes
//   Words<kSteps>, load_words(words, stage, places, first)     words of kSteps steps, for both tiles of 16 columns
//   operand(a, words, step, tile, zeros)        the A operand of 16 values along k
//
// Narrow blocks (sm90_narrow_gemm.cuh) use mma.sync. A warp has all columns of the block and reads the
// activations as the copies leave them:
//   NarrowPlaces, narrow_places()    offsets of a lane's words of strip 0 and activations of the first 8 rows
//   load_narrow_words(words, address of the lane's words, strip, step)
//   load_narrow_activations<kAgain>(b, address of the lane's activations, tile, step)
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/w4_values.cuh"
#include "weight_format/w4_words_by_k.cuh"
#include "weight_format/w4_words_by_n.cuh"

namespace cubit {

/// Offsets for a warp that has all strips of a narrow block: a lane's words of strip 0 and its activations of the first
/// 8 rows, both in step 0. The loads below derive every other offset, because registers are scarce. Layouts are linear
/// over address bits (XOR), and stages are aligned to the period of the swizzle. The address in an odd step is
/// therefore the address in the even step before it, XOR the offset of lane 0 in step 1.
template <class Base>
struct NarrowPlaces : Base::FactorPlaces {
  uint32 words;
  uint32 activations;

  static __device__ __forceinline__ NarrowPlaces of(uint32 words, uint32 activations) {
    NarrowPlaces result;
    static_cast<typename Base::FactorPlaces&>(result) = Base::factor_places(lane_index(), 0);
    result.words = settled(words);
    result.activations = settled(activations);
    return result;
  }
};

/// Words of kCount steps of 32 values along k, as operands. In operand(), `step` counts 16 values along k.
template <class Base, int kCount>
struct StepWords {
  typename Base::Weights of[kCount];

  /// The A operand of 16 columns (tile `tile`) and 16 values along k.
  __device__ __forceinline__ void operand(uint32 (&a)[4], int step, int tile, const GroupZeros& zeros) const {
    const typename Base::Weights& weights = of[step / 2];
    if (tile == 0) {
      step % 2 == 0 ? Base::template operand<0, 0>(a, weights, zeros) : Base::template operand<1, 0>(a, weights, zeros);
    } else {
      step % 2 == 0 ? Base::template operand<0, 1>(a, weights, zeros) : Base::template operand<1, 1>(a, weights, zeros);
    }
  }
};

template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset,
          bool kSpread>
struct W4CopiedWordsByK : W4WordsByK<Element, kWordsAt, kActivationsAt, kStoredZeros, kZeroOffset> {
  using Base = W4WordsByK<Element, kWordsAt, kActivationsAt, kStoredZeros, kZeroOffset>;
  template <int kCount>
  using Words = StepWords<Base, kCount>;

  static constexpr int kBoxColumns = gemm_lanes::kStripColumns;
  static constexpr bool kNeedsReorder = true;

  /// Offsets of words in even and odd steps. Two offsets are needed: the swizzle makes their distance depend on the
  /// lane.
  struct Places : Base::FactorPlaces {
    uint32 words;
    uint32 odd_words;
  };

  static __device__ __forceinline__ Places places(int strip) {
    Places result;
    static_cast<typename Base::FactorPlaces&>(result) = Base::factor_places(lane_index(), strip);
    const gemm_lanes::Place even = gemm_lanes::copied_words_by_k(lane_index(), strip, 0, kSpread);
    const gemm_lanes::Place odd = gemm_lanes::copied_words_by_k(lane_index(), strip, 1, kSpread);
    result.words = settled(kWordsAt(even.row, even.byte));
    result.odd_words = settled(kWordsAt(odd.row, odd.byte));
    return result;
  }

  using NarrowPlaces = cubit::NarrowPlaces<Base>;
  static __device__ __forceinline__ NarrowPlaces narrow_places() {
    const gemm_lanes::Place word = gemm_lanes::copied_words_by_k(lane_index(), 0, 0, kSpread);
    const gemm_lanes::Place activation = gemm_lanes::copied_activations_by_k(lane_index(), 0, 0, kSpread);
    return NarrowPlaces::of(kWordsAt(word.row, word.byte), kActivationsAt(activation.row, activation.byte));
  }

  /// Loads the words of a strip; `lane_words` is the shared-memory address of the lane's words of strip 0.
  static __device__ __forceinline__ void load_narrow_words(Words<1>& words, uint32 lane_words, int strip, int step) {
    const auto at = [](int s, int i) {
      const gemm_lanes::Place place = gemm_lanes::copied_words_by_k(0, s, i, kSpread);
      return kWordsAt(place.row, place.byte);
    };
    const uint32 own = step % 2 == 0 ? lane_words : lane_words ^ at(0, 1);
    load_shared(words.of[0].words, own + at(strip, step - step % 2));  // access: loads of words
  }

  /// Loads the B operands of 8 rows for both products of a step; `lane_activations` is the address of the lane's
  /// activations of the first 8 rows. kAgain: the load is repeated, although the compiler could keep the values of an
  /// earlier load in registers.
  template <bool kAgain>
  static __device__ __forceinline__ void load_narrow_activations(uint32 (&b)[4], uint32 lane_activations, int tile,
                                                                 int step) {
    const auto at = [](int t, int i) {
      const gemm_lanes::Place place = gemm_lanes::copied_activations_by_k(0, t, i, kSpread);
      return kActivationsAt(place.row, place.byte);
    };
    const uint32 own = step % 2 == 0 ? lane_activations : lane_activations ^ at(0, 1);
    const uint32 address = own + at(tile, step - step % 2);
    uint32 pairs[4];
    if constexpr (kAgain) {
      load_shared_again(pairs, address);  // access: loads of activations
    } else {
      load_shared(pairs, address);  // access: loads of activations
    }
    Base::pick_pairs(b, pairs);
  }

  template <int kCount>
  static __device__ __forceinline__ void load_words(Words<kCount>& words, uint32 stage, const Places& places,
                                                    int first) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int step = first + i;
      const gemm_lanes::Place at = gemm_lanes::copied_words_by_k(0, 0, step - step % 2, kSpread);
      const uint32 lane_words = step % 2 == 0 ? places.words : places.odd_words;
      load_shared(words.of[i].words, stage + lane_words + kWordsAt(at.row, at.byte));  // access: loads of words
    }
  }

  /// Index of the 16-byte vector (8 of 64 values along k) that lane (·, c) takes in an even and in an odd step.
  static constexpr __device__ __forceinline__ int vector(int c, int odd) { return kSpread ? 2 * c + odd : 4 * odd + c; }

  /// Reorders 64 values along k of a row of activations, from `byte` on, in place. `tile` is the address of the
  /// activations in shared memory.
  static __device__ __forceinline__ void reorder_in_shared(uint32 tile, int row, int byte) {
    uint32 vectors[8][4];  // vectors of 8 values along k
#pragma unroll
    for (int i = 0; i < 8; ++i)
      load_shared(vectors[i], tile + kActivationsAt(row, byte + 16 * i));  // access: loads of activations
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32 words[4] = {vectors[i][0], vectors[i][1], vectors[i][2], vectors[i][3]};
      Base::pick_pairs(vectors[i], words);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // vector i: step i / 4, values i % 4 and i % 4 + 4 of each source vector
      uint32 pairs[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) pairs[c] = vectors[vector(c, i / 4)][i % 4];
      store_shared(tile + kActivationsAt(row, byte + 16 * i), pairs);  // access: stores of activations
    }
  }

  /// Index of the 16-byte vector of a chunk (64 values along k of a row) that a lane loads. Lanes 8i … 8i + 7 reorder a
  /// chunk in registers: lane l of the eight begins with vector vector_of_lane(l) and ends with the 16 bytes from byte
  /// 16 · l of the reordered chunk on. All lanes of the warp call reorder_in_registers(), which transposes 4 × 4 pairs
  /// among each four lanes.
  static __device__ __forceinline__ int vector_of_lane(int lane) { return vector(lane % 4, lane / 4 % 2); }
  /// Turns the lane's vector `own` into the lane's 16 bytes of the reordered chunk; see vector_of_lane.
  static __device__ __forceinline__ void reorder_in_registers(uint32 (&pairs)[4], const uint32 (&own)[4]) {
    Base::pick_pairs(pairs, own);  // pair i goes to lane i of the four lanes
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
      // A bit mask instead of a condition: from a condition the compiler makes two branches with a shuffle in each.
      const uint32 is_upper = settled((lane_index() & bit) != 0 ? ~0u : 0u);
      const auto select = [&](uint32 of_upper, uint32 of_lower) {
        return (of_upper & is_upper) | (of_lower & ~is_upper);
      };
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & bit) != 0) continue;
        const uint32 low = pairs[i];
        const uint32 high = pairs[i | bit];
        const uint32 taken = __shfl_xor_sync(kFullWarp, select(low, high), bit);
        pairs[i] = select(taken, low);
        pairs[i | bit] = select(high, taken);
      }
    }
  }
};

template <class Element, int (*kWordsAt)(int, int), int (*kActivationsAt)(int, int), bool kStoredZeros, int kZeroOffset,
          bool kSpread>
struct W4CopiedWordsByN : W4WordsByN<Element, kWordsAt, kActivationsAt, kStoredZeros, kZeroOffset> {
  using Base = W4WordsByN<Element, kWordsAt, kActivationsAt, kStoredZeros, kZeroOffset>;
  using Places = typename Base::WeightPlaces;
  template <int kCount>
  using Words = StepWords<Base, kCount>;

  static constexpr int kBoxColumns = gemm_lanes::kBlockColumns / 2;
  static constexpr bool kNeedsReorder = false;

  static __device__ __forceinline__ Places places(int strip) { return Base::weight_places(strip); }

  using NarrowPlaces = cubit::NarrowPlaces<Base>;
  static __device__ __forceinline__ NarrowPlaces narrow_places() {
    const gemm_lanes::Place word = gemm_lanes::words_by_n(lane_index(), 0, 0);
    const gemm_lanes::Place activation = gemm_lanes::activations_by_n(lane_index(), 0, 0);
    return NarrowPlaces::of(kWordsAt(word.row, word.byte), kActivationsAt(activation.row, activation.byte));
  }

  /// Loads the words of a strip; `lane_words` is the shared-memory address of the lane's words of strip 0. A strip is a
  /// 16-byte chunk of a row. If chunks are swizzled, the bits of the chunk's number within its part of the row are
  /// combined with the address by XOR, because the lane's row may have set these bits. All other bits are added.
  static __device__ __forceinline__ void load_narrow_words(Words<1>& words, uint32 lane_words, int strip, int step) {
    constexpr bool kIsSwizzled = kWordsAt(7, 0) != 7 * kWordsAt(1, 0);  // row 7 has every bit that is xor'ed
    constexpr int kChunks = kIsSwizzled ? 0x30 : 0;                     // of parts of up to 64 bytes
    static_assert(!kIsSwizzled || kWordsAt(1, 0) <= 64);
    const gemm_lanes::Place place = gemm_lanes::words_by_n(0, strip, step);
    const int at = kWordsAt(place.row, place.byte);
    const uint32 row = (lane_words ^ (at & kChunks)) + (at & ~kChunks);
    load_matrices_transposed(words.of[0].matrices, row);  // access: ldmatrix.x4.trans of words
  }

  /// Loads the B operands of 8 rows for both products of a step; `lane_activations` is the address of the lane's
  /// activations of the first 8 rows. The load is always repeated, because the compiler never merges two ldmatrix
  /// instructions.
  template <bool /*kAgain*/>
  static __device__ __forceinline__ void load_narrow_activations(uint32 (&b)[4], uint32 lane_activations, int tile,
                                                                 int step) {
    const auto at = [](int t, int i) {
      const gemm_lanes::Place place = gemm_lanes::activations_by_n(0, t, i);
      return kActivationsAt(place.row, place.byte);
    };
    const uint32 own = step % 2 == 0 ? lane_activations : lane_activations ^ at(0, 1);
    load_matrices(b, own + at(tile, step - step % 2));  // access: ldmatrix.x4 of activations
  }

  template <int kCount>
  static __device__ __forceinline__ void load_words(Words<kCount>& words, uint32 stage, const Places& places,
                                                    int first) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Base::load_weights(words.of[i], stage, places, first + i);
  }
};

}  // namespace cubit
