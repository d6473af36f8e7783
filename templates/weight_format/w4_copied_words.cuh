// Weight operands of 4-bit weights for family sm90, whose stages are filled by TMA box copies. W4CopiedWordsByK has
// words of 8 values along k (w4_words_by_k.cuh), W4CopiedWordsByN words of 8 columns (w4_words_by_n.cuh).
//
// Interface of a weight operand of the loop with wgmma (sm90_gemm.cuh). Arguments, kStageGroups, kIsOneGroup,
// FactorPlaces, load_zeros, load_scales and arrange are as in w4_words_by_k.cuh; in addition there are:
//   Maps                             tensor maps that the operand adds to the kernel's argument, behind those of the
//                                    weights and the activations
//   kCopiesZeros                     whether the producer warp also copies zeros, which boxes do not copy
//   Boxes<Block>                     copies of a stage: see packed_boxes.cuh
//   Places, places(strip)            FactorPlaces, and offsets in a stage where a lane's accesses to words begin
//   Batch<kSteps>, load_batch(batch, stage, places, first)     words of kSteps steps, for both tiles of 16 columns
//   Operand, batch.operand(a, step, tile, zeros)      the A operand of 32 bytes along k, in registers or as a matrix
//                                    descriptor of shared memory; `step` counts 32 bytes
//
// In narrow blocks (sm90_narrow_gemm.cuh) a warp has all columns of the block:
//   NarrowBoxes<Block>               as Boxes
//   narrow_place()                   offset of a lane's words of strip 0. All other offsets are derived from this one,
//                                    because registers are scarce
//   load_narrow_words(batch of one step, address of the lane's words, strip, step)
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/packed_boxes.cuh"
#include "weight_format/w4_values.cuh"
#include "weight_format/w4_words_by_k.cuh"
#include "weight_format/w4_words_by_n.cuh"

namespace cubit {

/// Words of kCount steps of 32 values along k, as operands.
template <class Base, int kCount>
struct StepWords {
  typename Base::Words of[kCount];

  __device__ __forceinline__ void operand(uint32 (&a)[4], int step, int tile, const GroupZeros& zeros) const {
    const typename Base::Words& words = of[step / 2];
    if (tile == 0) {
      step % 2 == 0 ? Base::template operand<0, 0>(a, words, zeros) : Base::template operand<1, 0>(a, words, zeros);
    } else {
      step % 2 == 0 ? Base::template operand<0, 1>(a, words, zeros) : Base::template operand<1, 1>(a, words, zeros);
    }
  }
};

/// kSpread: see word_activations.cuh.
template <class Element, int (*kWordsAt)(int, int), int kGroup, bool kStoredZeros, int kZeroOffset, bool kSpread>
struct W4CopiedWordsByK : W4WordsByK<Element, kWordsAt, kGroup, kStoredZeros, kZeroOffset> {
  using Base = W4WordsByK<Element, kWordsAt, kGroup, kStoredZeros, kZeroOffset>;
  using Maps = PackedMaps;
  using Operand = uint32[4];
  template <int kCount>
  using Batch = StepWords<Base, kCount>;
  template <class Block>
  using Boxes = PackedBoxes<Base, Block, gemm_lanes::kStripColumns, kGroup, kStoredZeros>;
  template <class Block>
  using NarrowBoxes = Boxes<Block>;
  static constexpr bool kCopiesZeros = kStoredZeros;

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

  static __device__ __forceinline__ uint32 narrow_place() {
    const gemm_lanes::Place word = gemm_lanes::copied_words_by_k(lane_index(), 0, 0, kSpread);
    return kWordsAt(word.row, word.byte);
  }

  /// `lane_words` is the shared-memory address of the lane's words of strip 0. Layouts are linear over address bits
  /// (XOR), and stages are aligned to the period of the swizzle. The address in an odd step is therefore the address in
  /// the even step before it, XOR the offset of lane 0 in step 1.
  static __device__ __forceinline__ void load_narrow_words(Batch<1>& batch, uint32 lane_words, int strip, int step) {
    const auto at = [](int s, int i) {
      const gemm_lanes::Place place = gemm_lanes::copied_words_by_k(0, s, i, kSpread);
      return kWordsAt(place.row, place.byte);
    };
    const uint32 own = step % 2 == 0 ? lane_words : lane_words ^ at(0, 1);
    load_shared(batch.of[0].of, own + at(strip, step - step % 2));  // access: loads of words
  }

  template <int kCount>
  static __device__ __forceinline__ void load_batch(Batch<kCount>& batch, uint32 stage, const Places& places,
                                                    int first) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int step = first + i;
      const gemm_lanes::Place at = gemm_lanes::copied_words_by_k(0, 0, step - step % 2, kSpread);
      const uint32 lane_words = step % 2 == 0 ? places.words : places.odd_words;
      load_shared(batch.of[i].of, stage + lane_words + kWordsAt(at.row, at.byte));  // access: loads of words
    }
  }
};

template <class Element, int (*kWordsAt)(int, int), int kGroup, bool kStoredZeros, int kZeroOffset>
struct W4CopiedWordsByN : W4WordsByN<Element, kWordsAt, kGroup, kStoredZeros, kZeroOffset> {
  using Base = W4WordsByN<Element, kWordsAt, kGroup, kStoredZeros, kZeroOffset>;
  using Maps = PackedMaps;
  using Operand = uint32[4];
  struct Places : Base::FactorPlaces {
    uint32 words;
  };
  template <int kCount>
  using Batch = StepWords<Base, kCount>;
  template <class Block>
  using Boxes = PackedBoxes<Base, Block, gemm_lanes::kBlockColumns / 2, kGroup, kStoredZeros>;
  /// A strip's row is 16 bytes, so that a box has all neighbouring columns.
  template <class Block>
  using NarrowBoxes = PackedBoxes<Base, Block, Block::kHalfColumns, kGroup, kStoredZeros>;
  static constexpr bool kCopiesZeros = kStoredZeros;

  static __device__ __forceinline__ Places places(int strip) {
    const int lane = lane_index();
    Places result;
    result.words = Base::places(lane, strip);
    static_cast<typename Base::FactorPlaces&>(result) = Base::factor_places(lane, strip);
    return result;
  }

  static __device__ __forceinline__ uint32 narrow_place() {
    const gemm_lanes::Place word = gemm_lanes::words_by_n(lane_index(), 0, 0);
    return kWordsAt(word.row, word.byte);
  }

  /// `lane_words` is the shared-memory address of the lane's words of strip 0. A strip is a
  /// 16-byte chunk of a row. If chunks are swizzled, the bits of the chunk's number within its part of the row are
  /// combined with the address by XOR, because the lane's row may have set these bits. All other bits are added.
  static __device__ __forceinline__ void load_narrow_words(Batch<1>& batch, uint32 lane_words, int strip, int step) {
    constexpr bool kIsSwizzled = kWordsAt(7, 0) != 7 * kWordsAt(1, 0);  // row 7 has every bit that is xor'ed
    constexpr int kChunks = kIsSwizzled ? 0x30 : 0;                     // of parts of up to 64 bytes
    static_assert(!kIsSwizzled || kWordsAt(1, 0) <= 64);
    const gemm_lanes::Place place = gemm_lanes::words_by_n(0, strip, step);
    const int at = kWordsAt(place.row, place.byte);
    const uint32 row = (lane_words ^ (at & kChunks)) + (at & ~kChunks);
    load_matrices_transposed(batch.of[0].matrices, row);  // access: ldmatrix.x4.trans of words
  }

  template <int kCount>
  static __device__ __forceinline__ void load_batch(Batch<kCount>& batch, uint32 stage, const Places& places,
                                                    int first) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Base::load_words(batch.of[i], stage, places.words, first + i);
  }
};

}  // namespace cubit
