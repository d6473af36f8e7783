// Number formats of 4-bit weights for family sm90, where the tensor cores read the other operand from shared memory:
// somebody must put the activations' pairs into the order that words want, in each block or once per launch.
//
// By k (w4_words_by_k.cuh) lane (r, c) takes the words of rows 2c and 2c + 1 of eight: the one in an even step of 32
// k's, the other in the next. So position 2c + h of product p of step s is k = 8 (2c + s % 2) + 2p + 4h of the 64 k's
// of the two steps, and position 8 + 2c + h is one k further. Without kSpread a step's rows are neighbours: k = 8 (4 (s
// % 2) + c) + 2p + 4h. By n (w4_words_by_n.cuh) k's are in order.
//
// Interface of such a format: kWordRows, kWordK, load_zeros, load_scales, arrange as there, places(strip), and
//   kBoxColumns                    columns of one box of words, where a block has 256
//   kNeedsReorder              by reorder_in_shared(tile, row, byte): 64 k's of a row, in place
//   vector_of_lane, reorder_in_registers     the same in registers, of eight lanes
//   Words<kSteps>, load_words(words, stage, places, first)    kSteps times 32 k's, both tiles
//   operand(a, words, step, tile, zeros)                      of 16 k's
// and where a warp has all columns of a block of few, and takes activations as they have been copied:
//   TeamPlaces, narrow_places()      where a lane's words of the first strip and activations of the first rows begin
//   load_narrow_words(words, lane's words, strip, step)
//   load_narrow_activations<kAgain>(b, lane's activations, tile, step)   kAgain: not from registers
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "weight_format/w4_values.cuh"
#include "weight_format/w4_words_by_k.cuh"
#include "weight_format/w4_words_by_n.cuh"

namespace cubit {

/// For a warp that has all strips of a block and takes activations itself: where a lane's words of the first strip
/// begin, and the first rows of activations; of even steps alone, because registers are few.
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

/// The words of some steps of 32 k's.
template <class Base, int kCount>
struct StepWords {
  typename Base::Weights of[kCount];

  /// The A operand of tile `tile` and 16 k's.
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

  /// Of even and odd steps: the swizzle has the bit between them.
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

  /// The words of a strip, from where those of strip 0 are in shared memory.
  static __device__ __forceinline__ void load_narrow_words(Words<1>& words, uint32 lane_words, int strip, int step) {
    const auto at = [](int s, int i) {
      const gemm_lanes::Place place = gemm_lanes::copied_words_by_k(0, s, i, kSpread);
      return kWordsAt(place.row, place.byte);
    };
    const uint32 own = step % 2 == 0 ? lane_words : lane_words ^ at(0, 1);
    load_shared(words.of[0].words, own + at(strip, step - step % 2));  // access: loads of words
  }

  /// The B operands of 8 rows and a step's two products, from where those of the first rows are. kAgain: the compiler
  /// must not keep them in registers instead, where they have been loaded before.
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

  /// Which of the eight pieces of 8 k's in 64 a lane (·, c) takes in an even and in an odd step.
  static constexpr __device__ __forceinline__ int vector(int c, int odd) { return kSpread ? 2 * c + odd : 4 * odd + c; }

  /// 64 k's of a row of activations, from `byte` on, to where the products find them. `tile`: of activations, in shared
  /// memory.
  static __device__ __forceinline__ void reorder_in_shared(uint32 tile, int row, int byte) {
    uint32 vectors[8][4];  // of 8 k's
#pragma unroll
    for (int i = 0; i < 8; ++i)
      load_shared(vectors[i], tile + kActivationsAt(row, byte + 16 * i));  // access: loads of activations
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32 words[4] = {vectors[i][0], vectors[i][1], vectors[i][2], vectors[i][3]};
      Base::pick_pairs(vectors[i], words);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // of step i / 4, pairs i % 4 and i % 4 + 4 of each lane's piece
      uint32 pairs[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) pairs[c] = vectors[vector(c, i / 4)][i % 4];
      store_shared(tile + kActivationsAt(row, byte + 16 * i), pairs);  // access: stores of activations
    }
  }

  /// Eight lanes have a chunk: lane l first the 8 k's of this piece, then 16 bytes from 16 l on.
  static __device__ __forceinline__ int vector_of_lane(int lane) { return vector(lane % 4, lane / 4 % 2); }
  /// Those 16 bytes of the chunk in order, from the lane's piece: 4 x 4 pairs, transposed among four lanes. By all
  /// lanes of the warp.
  static __device__ __forceinline__ void reorder_in_registers(uint32 (&pairs)[4], const uint32 (&own)[4]) {
    Base::pick_pairs(pairs, own);  // pair i is wanted by lane i of the piece's four
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
      // Bits, not a condition, of which the compiler makes two ways with a shuffle each.
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

  /// The words of a strip, from where those of strip 0 are in shared memory. A strip is a chunk of 16 bytes of a row:
  /// where chunks are swizzled its number within a part is xor'ed, not added.
  static __device__ __forceinline__ void load_narrow_words(Words<1>& words, uint32 lane_words, int strip, int step) {
    constexpr bool kIsSwizzled = kWordsAt(7, 0) != 7 * kWordsAt(1, 0);  // row 7 has every bit that is xor'ed
    constexpr int kChunks = kIsSwizzled ? 0x30 : 0;                     // of parts of up to 64 bytes
    static_assert(!kIsSwizzled || kWordsAt(1, 0) <= 64);
    const gemm_lanes::Place place = gemm_lanes::words_by_n(0, strip, step);
    const int at = kWordsAt(place.row, place.byte);
    const uint32 row = (lane_words ^ (at & kChunks)) + (at & ~kChunks);
    load_matrices_transposed(words.of[0].matrices, row);  // access: ldmatrix.x4.trans of words
  }

  /// The B operands of 8 rows and a step's two products, from where those of the first rows are: always loaded again,
  /// for the compiler repeats an ldmatrix and makes no two of them one.
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
