// Weight operand with activation order (act-order): g_idx[k] names the quantisation group of each k.
//
// Neighbouring weights along k share neither scale nor zero, so no scaling can wait for the end of a group. Every
// weight is dequantised before its product, as the sum of two numbers of the element's type. A single number would cost
// as much accuracy as rounding the output does. In fp16, no weight may exceed 65504.
//
// Scales and zeros are read from global memory. The many values along k of a block share the cache lines of few groups,
// which stay in the L1 and the L2. A GEMM with activation order is several times slower than one without.
//
// Interface of a weight operand that dequantises, beside that of w4_words_by_k.cuh:
//   kTerms                                     numbers whose sum is a weight
//   Groups, load_groups(groups, args, stage, step)       what the weights of a step have in common, for all columns
//   dequantise(terms, words, args, groups, column)       terms[term][column][j]: the operands of four neighbouring
//                                              columns, from `column` on. Pair j holds the values along k of the
//                                              activations' register j
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "weight_format/packed_gemm_arguments.h"
#include "weight_format/packed_stage_copies.cuh"

namespace cubit {

/// Factors (scales and zeros) of four neighbouring columns in one group.
struct OrderedFactors {
  float scale[4];
  float zero[4];

  /// `column`: index among the layer's columns.
  template <int kBits, bool kStoredZeros, int kZeroOffset, class Layer>
  __device__ __forceinline__ void load(const Layer& layer, int group, int column) {
    constexpr int kInWord = 32 / kBits;
    const int64 at = group * static_cast<int64>(layer.columns()) + column;
    uint32 pairs[2];
    load_global<2, 8>(pairs, layer.scales() + 2 * at);
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_global<1, 4>(word, layer.zeros() + at / kInWord * 4);
    const uint32 stored = word[0] >> (column % kInWord * kBits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scale[i] = i % 2 == 0 ? Pair<Half>::low(pairs[i / 2]) : Pair<Half>::high(pairs[i / 2]);
      zero[i] = static_cast<float>(static_cast<int>(stored >> (kBits * i) & ((1u << kBits) - 1)) + kZeroOffset);
    }
  }
};

/// `Packed`: the weight operand without activation order. As in its activations, pair j holds weights (j, j + 4) of
/// 4-bit words, and weights (2j, 2j + 1) of 8-bit words.
template <class Element, class Packed, bool kStoredZeros, int kZeroOffset>
struct OrderedWords : Packed {
  using Words = typename Packed::Words;
  static constexpr bool kDequantises = true;
  static constexpr int kTerms = 2;
  static constexpr bool kStagesFactors = false;
  static constexpr int kStageGroups = 1;
  template <class>
  using FactorCopies = NoFactorCopies;

  /// Groups of 8 values along k.
  struct Groups {
    int of[8];
  };

  /// Loads the groups of the lane's values along k from g_idx. Values beyond args.k get group 0; groups beyond the last
  /// one become the last one.
  static __device__ __forceinline__ void load_groups(Groups& groups, const PackedGemmArguments& args, int stage,
                                                     int step) {
    const int row = stage * (gemm_lanes::kStageK / 8) + gemm_lanes::words_by_k(lane_index(), 0, step).row;
    uint32 words[8] = {};
    if (8 * row < args.k) load_global<8, 16>(words, args.g_idx + 8 * static_cast<int64>(row));
#pragma unroll
    for (int i = 0; i < 8; ++i) groups.of[i] = static_cast<int>(min(words[i], static_cast<uint32>(args.groups - 1)));
  }

  static __device__ __forceinline__ void dequantise(uint32 (&terms)[kTerms][4][4], const Words& words,
                                                    const typename Packed::Arguments& args, const Groups& groups,
                                                    int column) {
    using Values = Pair<Element>;
    typename Packed::Layer layer(args);
    layer.find(column);
    const int place = layer.place(column);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int one = Packed::kBits == 4 ? j : 2 * j;
      const int other = Packed::kBits == 4 ? j + 4 : 2 * j + 1;
      OrderedFactors first;
      OrderedFactors second;
      first.load<Packed::kBits, kStoredZeros, kZeroOffset>(layer, groups.of[one], place);
      second.load<Packed::kBits, kStoredZeros, kZeroOffset>(layer, groups.of[other], place);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float low = (static_cast<float>(Packed::number(words, i, one)) - first.zero[i]) * first.scale[i];
        const float high = (static_cast<float>(Packed::number(words, i, other)) - second.zero[i]) * second.scale[i];
        const uint32 rounded = Values::pack(low, high);
        terms[0][i][j] = rounded;
        terms[1][i][j] = Values::pack(low - Values::low(rounded), high - Values::high(rounded));
      }
    }
  }
};

}  // namespace cubit
