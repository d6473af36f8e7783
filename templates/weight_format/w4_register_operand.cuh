// Weight operands of the persistent GEMM that come from registers: packed 4-bit weights, which the consumer warps
// dequantise. W4OperandByK has words of 8 values along k (gptq, gptq_v2, symmetric), W4OperandByN has words of 8
// features (awq).
//
// Activations are in natural order along k, so that a lane must make exactly the pairs of values along k that the A
// fragment of m64k16 asks for: lane 4 g + q has values 2 q and 2 q + 1, and 8 more, of rows g and g + 8. By k, byte q
// of a word is such a pair. By n, ldmatrix.trans puts two values along k into the halves of a register.
//
// A thread holds the operands of two slabs, because it dequantises one slab while the tensor cores read the other.
//
// Interface of a weight operand:
//   Arguments                  the kernel's arguments, without tensor maps
//   kBytes                     bytes of weights in a stage
//   Features                   which features a lane has: see persistent_gemm_lanes.h
//   load_stage(...)            starts the copies of a stage; one thread of the producer warp calls it
//   stage_bytes(args, slab)    bytes that load_stage() copies
//   Operand(args, tile, slab, shared)   state of a consumer thread for one tile, from slab `slab` on. `shared` is the
//                              address of the block's shared memory
//   Words, load(words, stage)  reads what the thread needs of a stage
//   convert<buffer>(words)     makes the operands of the next slab, in order; `buffer` is the slab's parity
//   operand<buffer>(step)      the A operand of a step: four registers, or a matrix descriptor
//   begins_unit<buffer>(step)  whether the step's products are in another unit than those before
//   change_unit(sums, step)    brings the sums into the unit of the step's products
//   scale(sums)                makes products of the sums when all products are added
//
// PTX ISA: register fragments of wgmma.m64k16, "ldmatrix".
#pragma once

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "kernels/gemm/persistent_gemm_arguments.h"
#include "weight_format/feature_tile.cuh"
#include "weight_format/w4_group_scales.cuh"

namespace cubit {

/// Copies the rows of words of a stage, kBytes bytes: one box, or a box of gate and a box of up-projection features.
template <uint32 kBytes, bool kGated>
__device__ __forceinline__ void load_word_boxes(const PersistentGemmArguments& args, const TensorMap& map, uint32 dst,
                                                FeatureTile<kGated> tile, int columns_per_word, int row,
                                                uint32 barrier) {
  constexpr int kBoxes = kGated ? 2 : 1;
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    // A box may lie outside the tensor, and then holds zeros. Its first byte must be a multiple of 16 bytes away from
    // the beginning of a row, or the GPU reports an illegal instruction.
    const int column = tile.column(args.n, i * FeatureTile<kGated>::kOutputs);
    copy_box(dst + i * (kBytes / kBoxes), map, column / columns_per_word, row, barrier);
  }
}

/// What a consumer thread needs of a stage whose words hold 8 values along k of one feature. kWordsAt: offset of a byte
/// of the words in a stage.
template <class Features, int (*kWordsAt)(int, int), bool kGated>
class W4WordLoader {
 public:
  struct Words {
    uint32 of[persistent_lanes::kSteps][2][2];  ///< [half of the step][feature]
  };

  __device__ __forceinline__ W4WordLoader() {
    const persistent_lanes::Place word = Features::word(lane_index(), warp_index(), 0, 0, 0);
    words_at_ = kWordsAt(word.row, word.byte);
  }

  __device__ __forceinline__ void load(Words& words, uint32 stage) const {
    constexpr int kUp = kWordsAt(0, 4 * persistent_lanes::kBlockFeatures / 2);
#pragma unroll
    for (int i = 0; i < 2 * persistent_lanes::kSteps; ++i) {
      uint32(&dst)[2] = words.of[i / 2][i % 2];
      const uint32 at = stage + words_at_ + kWordsAt(i, 0);
      if constexpr (kGated) {
        uint32 gate[1], up[1];
        load_shared(gate, at);      // access: loads of words
        load_shared(up, at + kUp);  // access: loads of words
        dst[0] = gate[0];
        dst[1] = up[0];
      } else {
        load_shared(dst, at);  // access: loads of words
      }
    }
  }

 private:
  uint32 words_at_;
};

/// The common part of both operands. kGroup: values along k of a group; 0 if one group is all of k.
template <class Element, class FeaturesOfLanes, bool kGated, bool kByN, int kGroup, bool kStoredZeros, int kZeroOffset>
class W4Operand {
 public:
  using Arguments = PersistentGemmArguments;
  using Features = FeaturesOfLanes;
  using Tile = FeatureTile<kGated>;
  static constexpr uint32 kBytes = persistent_lanes::kSlabK * persistent_lanes::kBlockFeatures / 2;

  static constexpr __device__ __forceinline__ uint32 stage_bytes(const PersistentGemmArguments&, int) { return kBytes; }

  template <int kBuffer>
  __device__ __forceinline__ const uint32 (&operand(int step) const)[4] {
    return operands_[kBuffer][step];
  }

  /// Where groups have two slabs, a tile's slabs begin with an even index, which is the first of its group.
  template <int kBuffer>
  static constexpr __device__ __forceinline__ bool begins_unit(int step) {
    if (kGroup == 0 || (kGroup == 128 && kBuffer == 1)) return false;
    return step % (persistent_lanes::kSteps / kSlabGroups) == 0;
  }
  template <class Sums>
  __device__ __forceinline__ void change_unit(Sums& sums, int step) const {
    const int group = group_of_step(step);
    sums.multiply_rows(groups_.ratio(group, 0), groups_.ratio(group, 1));
  }
  template <class Sums>
  __device__ __forceinline__ void scale(Sums& sums) const {
    sums.multiply_rows(groups_.unit(0), groups_.unit(1));
  }

 protected:
  static constexpr int kSlabGroups = kGroup == 32 ? 2 : 1;
  static constexpr int kRows = kGated ? 2 : 1;  ///< parts of a stage that a lane reads: gate and up-projection

  /// Group of the first value along k of a slab.
  static __device__ __forceinline__ int group_of(int slab) {
    return kGroup == 0 ? 0 : slab * persistent_lanes::kSlabK / (kGroup == 0 ? 1 : kGroup);
  }

  static constexpr __device__ __forceinline__ int group_of_step(int step) {
    return step * kSlabGroups / persistent_lanes::kSteps;
  }

  __device__ __forceinline__ W4Operand(const PersistentGemmArguments& args, Tile tile, int slab)
      : groups_(args, tile.first + Features::feature(lane_index(), warp_index(), 0), group_of(slab)) {
    groups_.fetch();
  }

  /// Makes the converters of the only group. The constructors of operands call this function.
  template <NibblePair kFirst, NibblePair kSecond>
  __device__ __forceinline__ void begin_tile() {
    if constexpr (kGroup == 0) groups_.template take<kFirst, kSecond>(converters_);
  }

  /// Makes the converters of the next slab, if it begins a group, and starts the loads of the groups behind it.
  template <int kBuffer, NibblePair kFirst, NibblePair kSecond>
  __device__ __forceinline__ void begin_slab() {
    if constexpr (!begins_unit<kBuffer>(0)) return;
    groups_.template take<kFirst, kSecond>(converters_);
    groups_.fetch();
  }

  __device__ __forceinline__ const W4Converter<Element>& converter(int step, int row) const {
    return converters_[group_of_step(step)][row];
  }

  uint32 operands_[2][persistent_lanes::kSteps][4];

 private:
  W4GroupScales<Element, kSlabGroups, kStoredZeros, kZeroOffset, kByN, kGated> groups_;
  W4Converter<Element> converters_[kSlabGroups][2];
};

template <class Element, int (*kWordsAt)(int, int), bool kGated, int kGroup, bool kStoredZeros, int kZeroOffset>
class W4OperandByK : public W4Operand<Element, persistent_lanes::FeaturesByK<kGated>, kGated, false, kGroup,
                                      kStoredZeros, kZeroOffset> {
  using Base =
      W4Operand<Element, persistent_lanes::FeaturesByK<kGated>, kGated, false, kGroup, kStoredZeros, kZeroOffset>;
  using Loader = W4WordLoader<typename Base::Features, kWordsAt, kGated>;

 public:
  using Features = typename Base::Features;
  using Tile = typename Base::Tile;
  using Words = typename Loader::Words;

  static __device__ __forceinline__ void load_stage(const PersistentGemmArguments& args, const TensorMap& map,
                                                    uint32 dst, Tile tile, int slab, uint32 barrier) {
    load_word_boxes<Base::kBytes>(args, map, dst, tile, 1, slab * (persistent_lanes::kSlabK / 8), barrier);
  }

  __device__ __forceinline__ W4OperandByK(const PersistentGemmArguments& args, Tile tile, int slab, uint32)
      : Base(args, tile, slab), select_(lane_index() % 4) {
    Base::template begin_tile<NibblePair::kByte, NibblePair::kByte>();
  }

  __device__ __forceinline__ void load(Words& words, uint32 stage) const { loader_.load(words, stage); }

  template <int kBuffer>
  __device__ __forceinline__ void convert(const Words& words) {
    Base::template begin_slab<kBuffer, NibblePair::kByte, NibblePair::kByte>();
#pragma unroll
    for (int step = 0; step < persistent_lanes::kSteps; ++step) {
      uint32(&a)[4] = this->operands_[kBuffer][step];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[i] = this->converter(step, i % 2).template apply<NibblePair::kByte>(select_(words.of[step][i / 2][i % 2]));
      settle_operand(a);
    }
  }

 private:
  W4ByteSelector<Element> select_;
  Loader loader_;
};

template <class Element, int (*kWordsAt)(int, int), bool kGated, int kGroup, bool kStoredZeros, int kZeroOffset>
class W4OperandByN : public W4Operand<Element, persistent_lanes::FeaturesByN<kGated>, kGated, true, kGroup,
                                      kStoredZeros, kZeroOffset> {
  using Base =
      W4Operand<Element, persistent_lanes::FeaturesByN<kGated>, kGated, true, kGroup, kStoredZeros, kZeroOffset>;
  static constexpr int kPairs = persistent_lanes::kSteps / 2;  ///< of steps, which one ldmatrix.x4 loads together

 public:
  using Features = typename Base::Features;
  using Tile = typename Base::Tile;

  static __device__ __forceinline__ void load_stage(const PersistentGemmArguments& args, const TensorMap& map,
                                                    uint32 dst, Tile tile, int slab, uint32 barrier) {
    load_word_boxes<Base::kBytes>(args, map, dst, tile, 8, slab * persistent_lanes::kSlabK, barrier);
  }

  __device__ __forceinline__ W4OperandByN(const PersistentGemmArguments& args, Tile tile, int slab, uint32)
      : Base(args, tile, slab), shift_(4 * Features::nibble(lane_index(), warp_index())) {
    const persistent_lanes::Place row = Features::words(lane_index(), warp_index(), 0, 0);
    words_at_ = kWordsAt(row.row, row.byte);
    Base::template begin_tile<NibblePair::kFirst, kSecond>();
  }

  struct Words {
    uint32 of[kPairs][Base::kRows][4];  ///< four times 8 values along k
  };

  __device__ __forceinline__ void load(Words& words, uint32 stage) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
#pragma unroll
      for (int row = 0; row < Base::kRows; ++row) {
        const uint32 at = stage + words_at_ + kWordsAt(32 * i, row * (persistent_lanes::kBlockFeatures / 4));
        load_matrices_transposed(words.of[i][row], at);  // access: ldmatrix.x4.trans of words
      }
    }
  }

  template <int kBuffer>
  __device__ __forceinline__ void convert(const Words& words) {
    Base::template begin_slab<kBuffer, NibblePair::kFirst, kSecond>();
#pragma unroll
    for (int step = 0; step < persistent_lanes::kSteps; ++step) {
      uint32(&a)[4] = this->operands_[kBuffer][step];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int matrix = step % 2 * 2 + half;
        const uint32 first = words.of[step / 2][0][matrix] >> shift_;
        const uint32 second = kGated ? words.of[step / 2][Base::kRows - 1][matrix] >> shift_ : first;
        a[2 * half] = this->converter(step, 0).template apply<NibblePair::kFirst>(first);
        a[2 * half + 1] = this->converter(step, 1).template apply<kSecond>(second);
      }
      settle_operand(a);
    }
  }

 private:
  static constexpr NibblePair kSecond = kGated ? NibblePair::kFirst : NibblePair::kSecond;

  uint32 shift_;
  uint32 words_at_;
};

}  // namespace cubit
