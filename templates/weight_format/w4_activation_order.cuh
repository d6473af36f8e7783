// Weight operand with activation order (act-order): g_idx[k] names the quantisation group of each k.
//
// Neighbouring weights along k share neither scale nor zero, so no scaling can wait for the end of a group. Every
// weight is dequantised before its product: (q - zero) is exact, and its product with the scale is rounded once to the
// element's type. In fp16, no weight may exceed 65504.
//
// A stage has the groups of its values along k. A weight needs the scale and the zero of its own group, which are more
// bytes than its word has. Blocks of few columns therefore keep the scales and zeros of their columns, of all groups,
// in a table in shared memory. A table whose rows do not fit is not used: the lanes then read scales and zeros from
// global memory, where they share the cache lines of few groups. Wide blocks have no table and read global memory, too.
//
// The four lanes 4r … 4r + 3 have weights of the same columns and of different k, so their groups differ. Each of the
// four lanes has a copy of the table in banks of its own. Loads of any groups then have no bank conflicts:
//   row of a group:  { per 16 columns [4 copies][32 bytes of scales] | per 32 columns [4 copies][32 zeros] }
//
// Interface of a weight operand that dequantises, beside that of w4_words_by_k.cuh:
//   kTableBytes                                bytes of the table; 0: there is none
//   fill_table(args, table, thread, threads, column_of)   fills the table at address `table`, as one of `threads`
//                                              threads; column_of(place) is the column at a place of the block, or -1
//   Groups, load_groups(groups, args, stage_groups, step)     groups of the lane's values along k in a step;
//                                              `stage_groups` is the address of the groups of the stage's k
//   Factors, load_factors(factors, groups, args, column)  scales and zeros of four neighbouring columns from `column`
//                                              on, in all of these groups
//   look_up_factors(factors, groups, table, strip)  the same from the table
//   dequantise(operands, words, factors)       operands[column][j]: pair j holds the values along k of the activations'
//                                              register j
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/ordered_pair.cuh"
#include "weight_format/packed_gemm_arguments.h"
#include "weight_format/packed_stage_copies.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

/// Scales and zeros of four neighbouring columns in one group.
struct OrderedFactors {
  uint32 scales[2];  ///< fp16
  uint32 zeros;      ///< a byte for each column. With 8 bits the bytes are stored zeros, without their offset.
};

/// Copies of the groups of a stage's values along k, which take the place of scales and zeros in a stage.
template <class Block>
class GroupCopies {
 public:
  __device__ __forceinline__ GroupCopies(const PackedGemmArguments& args, const WorkTile& work_tile)
      : src_(args.g_idx + work_tile.first * gemm_lanes::kStageK + 4 * Block::ring_thread()) {}

  /// As in PackedFactorCopies. 32 threads copy a stage's groups; values beyond the end of k have group 0.
  template <bool kAllK>
  __device__ __forceinline__ void fetch(uint32 groups, int, int k_left) {
    const int thread = static_cast<int>(Block::ring_thread());
    if (thread < kWarpSize)
      held_.start(0, groups + 16 * thread, reinterpret_cast<const char*>(src_), kAllK || 4 * thread < k_left);
    src_ += gemm_lanes::kStageK;
  }
  __device__ __forceinline__ void store(uint32 groups, int) const {
    const int thread = static_cast<int>(Block::ring_thread());
    if (thread < kWarpSize) held_.store(0, groups + 16 * thread);
  }

 private:
  const unsigned* src_;
  typename Block::Copies::template Pieces<16, 1> held_;
};

/// `Packed`: the weight operand without activation order. As in its activations, pair j holds weights (j, j + 4) of
/// 4-bit words, and weights (2j, 2j + 1) of 8-bit words. kColumns: columns of a block.
template <class Element, class Packed, bool kStoredZeros, int kZeroOffset, int kColumns, int kBytesOfTable>
struct OrderedWords : Packed {
  using Words = typename Packed::Words;
  static constexpr bool kDequantises = true;
  static constexpr bool kStagesFactors = true;
  static constexpr int kStageGroups = 1;
  static constexpr int kTableBytes = kBytesOfTable;
  template <class Block>
  using FactorCopies = GroupCopies<Block>;

  /// Groups of 8 values along k.
  struct Groups {
    int of[8];
  };
  using Factors = OrderedFactors[8];

  /// Loads the groups of the lane's values along k from a stage. Groups beyond the last one become the last one.
  static __device__ __forceinline__ void load_groups(Groups& groups, const PackedGemmArguments& args,
                                                     uint32 stage_groups, int step) {
    const int row = gemm_lanes::words_by_k(lane_index(), 0, step).row;
    uint32 words[8];
    load_shared(words, stage_groups + 32 * row);
#pragma unroll
    for (int i = 0; i < 8; ++i) groups.of[i] = static_cast<int>(min(words[i], static_cast<uint32>(args.groups - 1)));
  }

  static __device__ __forceinline__ void load_factors(Factors& factors, const Groups& groups,
                                                      const typename Packed::Arguments& args, int column) {
    typename Packed::Layer layer(args);
    layer.find(column);
    const int place = layer.place(column);
#pragma unroll
    for (int i = 0; i < 8; ++i) load_group(factors[i], layer, groups.of[i], place);
  }

  static __device__ __forceinline__ bool has_table(const PackedGemmArguments& args) {
    return kTableBytes > 0 && args.groups <= kTableBytes / kRowBytes;
  }

  template <class ColumnOf>
  static __device__ __forceinline__ void fill_table(const typename Packed::Arguments& args, uint32 table, int thread,
                                                    int threads, ColumnOf&& column_of) {
    constexpr int kVectors = kColumns / 4;
#pragma unroll 4
    for (int i = thread; i < args.groups * kVectors; i += threads) {
      const int group = i / kVectors;
      const int place = i % kVectors * 4;
      const int column = column_of(place);
      typename Packed::Layer layer(args);
      layer.find(column);
      OrderedFactors factors = {};
      if (column >= 0) load_group(factors, layer, group, layer.place(column));
      const uint32 row = table + group * kRowBytes;
#pragma unroll
      for (int copy = 0; copy < kCopies; ++copy) {
        store_shared(row + scales_at(place, copy), factors.scales);
        if constexpr (kStoredZeros) store_shared_word(row + zeros_at(place, copy), factors.zeros);
      }
    }
  }

  static __device__ __forceinline__ void look_up_factors(Factors& factors, const Groups& groups, uint32 table,
                                                         int strip) {
    const int place = gemm_lanes::first_column(lane_index());
    const int copy = lane_index() % 4;
    const uint32 scales = table + scales_at(place, copy) + scales_at(gemm_lanes::kStripColumns * strip, 0);
    const uint32 zeros = table + zeros_at(place, copy) + zeros_at(gemm_lanes::kStripColumns * strip, 0) - kScaleBytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      load_shared(factors[i].scales, scales + groups.of[i] * kRowBytes);
      uint32 word[1] = {0};
      if constexpr (kStoredZeros) load_shared(word, zeros + groups.of[i] * kRowBytes);
      factors[i].zeros = word[0];
    }
  }

  static __device__ __forceinline__ void dequantise(uint32 (&operands)[4][4], const Words& words,
                                                    const Factors& factors) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const OrderedFactors& first = factors[Packed::kBits == 4 ? j : 2 * j];
      const OrderedFactors& second = factors[Packed::kBits == 4 ? j + 4 : 2 * j + 1];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32 scales = __byte_perm(first.scales[i / 2], second.scales[i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
        // The zeros of columns 0 and 1, or 2 and 3, of both groups in turn.
        const uint32 two = __byte_perm(first.zeros, second.zeros, i < 2 ? 0x5140 : 0x7362);
        operands[i][j] = OrderedPair<Element>::scale(less_zeros(Packed::pair(words, i, j), two, i % 2), scales);
      }
    }
  }

 private:
  static constexpr int kCopies = 4;
  static constexpr int kScaleBytes = 2 * kColumns * kCopies;
  static constexpr int kRowBytes = kScaleBytes + (kStoredZeros ? kColumns * kCopies : 0);

  static constexpr __device__ __forceinline__ int scales_at(int place, int copy) {
    return place / 16 * (32 * kCopies) + copy * 32 + place % 16 * 2;
  }
  static constexpr __device__ __forceinline__ int zeros_at(int place, int copy) {
    return kScaleBytes + place / 32 * (32 * kCopies) + copy * 32 + place % 32;
  }

  /// `numbers` are 1024 + q of a pair in fp16. `zeros` has the zeros of two columns.
  static __device__ __forceinline__ uint32 less_zeros(uint32 numbers, uint32 zeros, int column) {
    constexpr uint32 k1024 = 0x64006400u;
    if constexpr (!kStoredZeros) return Pair<Half>::difference(numbers, k1024 + kZeroOffset * 0x00010001u);
    const uint32 result = Pair<Half>::difference(numbers, __byte_perm(zeros, k1024, column == 0 ? 0x5150 : 0x5352));
    return Packed::kBits == 8 && kZeroOffset == 1 ? Pair<Half>::difference(result, 0x3c003c00u) : result;
  }

  /// `place`: index among the layer's columns, a multiple of 4.
  template <class Layer>
  static __device__ __forceinline__ void load_group(OrderedFactors& factors, const Layer& layer, int group, int place) {
    constexpr int kInWord = 32 / Packed::kBits;
    const int64 at = group * static_cast<int64>(layer.columns()) + place;
    load_global<2, 8>(factors.scales, layer.scales() + 2 * at);
    if constexpr (kStoredZeros) {
      uint32 word[1];
      load_global<1, 4>(word, layer.zeros() + at / kInWord * 4);
      factors.zeros = Packed::kBits == 8 ? word[0] : bytes_of_nibbles(word[0] >> (place % 8 * 4));
    }
  }
  /// The four lowest nibbles as bytes, plus the offset of zeros.
  static __device__ __forceinline__ uint32 bytes_of_nibbles(uint32 nibbles) {
    const uint32 halves = __byte_perm(nibbles, 0, 0x4140);
    return ((halves | halves << 4) & 0x0f0f0f0fu) + kZeroOffset * 0x01010101u;
  }
};

}  // namespace cubit
