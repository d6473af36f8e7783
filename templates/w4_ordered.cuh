// Words by k whose k's have groups of their own (activation order): g_idx[k] names the group of each k.
//
// Neighbours along k share neither scale nor zero, so nothing can wait for the end of a group: every weight becomes the sum of
// two numbers of the element's type before its product (one alone would cost as much as the output's rounding). Scales and zeros are read where they lie; a block's many k's share
// the lines of few groups, which the L1 and the L2 keep. Several times slower than without the order.
#pragma once

#include "copies.cuh"
#include "types.cuh"
#include "w4a16_gemm_arguments.h"

namespace cubit {

/// The groups of the 8 k's of a row of words; of rows that do not exist the first group. What is no group is the last one.
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

  template <bool kStoredZeros, int kZeroOffset>
  __device__ __forceinline__ void load(const W4a16GemmArguments& args, int group, int column) {
    const int64 at = group * static_cast<int64>(args.n) + column;
    uint32 pairs[2];
    load_global<2, 8>(pairs, static_cast<const char*>(args.scales) + 2 * at);
    uint32 word[1] = {0};
    if constexpr (kStoredZeros) load_global<1, 4>(word, static_cast<const char*>(args.qzeros) + at / 8 * 4);
    const uint32 nibbles = word[0] >> (column % 8 * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scale[i] = i % 2 == 0 ? Pair<Half>::low(pairs[i / 2]) : Pair<Half>::high(pairs[i / 2]);
      zero[i] = static_cast<float>(static_cast<int>(nibbles >> (4 * i) & 15u) + kZeroOffset);
    }
  }
};

/// Pairs (j, j + 4) of the words of four neighbouring columns as two terms of operands: dst[term][column][j].
template <class Element, bool kStoredZeros, int kZeroOffset>
__device__ __forceinline__ void dequantise(uint32 (&dst)[2][4][4], const uint32 (&words)[4],
                                           const W4a16GemmArguments& args, const int (&groups)[8], int column) {
  using Values = Pair<Element>;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    OrderedFactors first;
    OrderedFactors second;
    first.load<kStoredZeros, kZeroOffset>(args, groups[j], column);
    second.load<kStoredZeros, kZeroOffset>(args, groups[j + 4], column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = (static_cast<float>(words[i] >> (4 * j) & 15u) - first.zero[i]) * first.scale[i];
      const float high = (static_cast<float>(words[i] >> (4 * j + 16) & 15u) - second.zero[i]) * second.scale[i];
      const uint32 rounded = Values::pack(low, high);
      dst[0][i][j] = rounded;
      dst[1][i][j] = Values::pack(low - Values::low(rounded), high - Values::high(rounded));
    }
  }
}

}  // namespace cubit
