// Words by k whose k's have groups of their own (activation order): g_idx[k] names the group of each k.
//
// Neighbours along k share neither scale nor zero, so nothing can wait for the end of a group: every weight becomes the
// sum of two numbers of the element's type before its product (one alone would cost as much as the output's rounding):
// in fp16 nothing beyond 65504.
// Scales and zeros are read where they lie; a block's many k's share the lines of few groups, which the L1 and the L2
// keep. Several times slower than without the order.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"
#include "kernels/w4a16_gemm_arguments.h"

namespace cubit {

/// The groups of the 8 k's of a row of words; of rows that do not exist the first group. What is no group is the last
/// one.
__device__ __forceinline__ void load_groups(int (&groups)[8], const W4a16GemmArguments& args, int row, int count) {
  uint32 words[8] = {};
  if (8 * row < args.k) load_global<8, 16>(words, args.g_idx + 8 * static_cast<int64>(row));
#pragma unroll
  for (int i = 0; i < 8; ++i) groups[i] = static_cast<int>(min(words[i], static_cast<uint32>(count - 1)));
}

/// Factors of four neighbouring columns in one group.
struct OrderedFactors {
  float scale[4];
  float zero[4];

  template <int kBits, bool kStoredZeros, int kZeroOffset>
  __device__ __forceinline__ void load(const W4a16GemmArguments& args, int group, int column) {
    constexpr int kInWord = 32 / kBits;
    const int64 at = group * static_cast<int64>(args.n) + column;
    uint32 pairs[2];
    load_global<2, 8>(pairs, static_cast<const char*>(args.scales) + 2 * at);
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_global<1, 4>(word, static_cast<const char*>(args.qzeros) + at / kInWord * 4);
    const uint32 stored = word[0] >> (column % kInWord * kBits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scale[i] = i % 2 == 0 ? Pair<Half>::low(pairs[i / 2]) : Pair<Half>::high(pairs[i / 2]);
      zero[i] = static_cast<float>(static_cast<int>(stored >> (kBits * i) & ((1u << kBits) - 1)) + kZeroOffset);
    }
  }
};

/// The 8 numbers of four neighbouring columns as two terms of operands: dst[term][column][j], whose pairs are numbers
/// (j, j + 4) of nibbles, (2j, 2j + 1) of bytes, as the format's activations.
template <class Element, class Format, bool kStoredZeros, int kZeroOffset>
__device__ __forceinline__ void dequantise(uint32 (&dst)[2][4][4], const typename Format::Weights& weights,
                                           const W4a16GemmArguments& args, const int (&groups)[8], int column) {
  using Values = Pair<Element>;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int one = Format::kBits == 4 ? j : 2 * j;
    const int other = Format::kBits == 4 ? j + 4 : 2 * j + 1;
    OrderedFactors first;
    OrderedFactors second;
    first.load<Format::kBits, kStoredZeros, kZeroOffset>(args, groups[one], column);
    second.load<Format::kBits, kStoredZeros, kZeroOffset>(args, groups[other], column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = (static_cast<float>(Format::number(weights, i, one)) - first.zero[i]) * first.scale[i];
      const float high = (static_cast<float>(Format::number(weights, i, other)) - second.zero[i]) * second.scale[i];
      const uint32 rounded = Values::pack(low, high);
      dst[0][i][j] = rounded;
      dst[1][i][j] = Values::pack(low - Values::low(rounded), high - Values::high(rounded));
    }
  }
}

}  // namespace cubit
