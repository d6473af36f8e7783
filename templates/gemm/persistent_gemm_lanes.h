// Which features and which bytes of shared memory each lane has in the persistent GEMM. The kernel and the proofs of
// bank conflicts in the plan use the same functions.
//
// Weights are the A operand of wgmma, so features (columns of the weights) are M and tokens (rows of the activations)
// are N. A block computes 128 features with two consumer warpgroups, and a consumer warp has 16 features: rows g and
// g + 8 of the operand are in lanes 4 g to 4 g + 3. Which feature is which row is free. A mapping is chosen such that a
// lane loads few words and such that stores of the output have no bank conflicts.
//
// With a gated epilogue the block has 64 gate features (0 to 63 below) and the matching 64 up-projection features (64
// to 127). Row g is then a gate feature and row g + 8 is its up-projection feature, so that no data moves between lanes
// to apply the gate.
#pragma once

#include "core/shared_code.h"

namespace cubit::persistent_lanes {

inline constexpr int kSlabBytes = 128;          ///< bytes of a token in a pipeline stage
inline constexpr int kSlabK = kSlabBytes / 2;   ///< values along k per pipeline stage, of 16 bits
inline constexpr int kSteps = kSlabBytes / 32;  ///< wgmma instructions per stage
inline constexpr int kBlockFeatures = 128;      ///< features per block
inline constexpr int kConsumerWarps = 8;        ///< two warpgroups
inline constexpr int kUnitSlabs = 2;            ///< slabs per unit of stream-K; a unit begins with a whole group

/// Tokens of a box that a tensor copy brings: the largest part of half a tile's tokens that has at most 72 tokens and
/// whole swizzle atoms of 8. A copy takes longer, the more tokens of its box do not exist, and many small boxes take
/// longer than few large ones.
CUBIT_SHARED_CODE int box_tokens(int tile_tokens) {
  int tokens = 72;
  while (tile_tokens / 2 % tokens != 0) tokens -= 8;
  return tokens;
}

struct Place {
  int row;
  int byte;
};

// Interface of Features:
//   feature(lane, warp, row)  the feature of row g (0) or g + 8 (1)
//   kExchanges                whether lanes 4 apart exchange outputs before they store them, because one lane has no
//                             neighbouring outputs of a token
//   kRuns                     runs of neighbouring outputs that a lane stores of a block of 8 tokens: one run, or one
//                             for each of its tokens; if lanes exchange outputs, one for each of its rows

/// Weights that wgmma reads from shared memory itself: rows are neighbouring features. If gated, a warp has 8 gate
/// features and their up-projection features.
template <bool kGated>
struct FeaturesInOrder {
  static constexpr bool kExchanges = true;
  static constexpr int kRuns = kGated ? 1 : 2;

  static CUBIT_SHARED_CODE int feature(int lane, int warp, int row) {
    return kGated ? 64 * row + 8 * warp + lane / 4 : 16 * warp + 8 * row + lane / 4;
  }
};

/// Words that hold 8 values along k of one feature (gptq). A lane has two neighbouring features, whose words one load
/// brings; if gated, it has one output.
template <bool kGated>
struct FeaturesByK {
  static constexpr bool kExchanges = kGated;
  static constexpr int kRuns = kGated ? 1 : 2;

  static CUBIT_SHARED_CODE int feature(int lane, int warp, int row) {
    return kGated ? 64 * row + 8 * warp + lane / 4 : 16 * warp + 2 * (lane / 4) + row;
  }
  /// The word with half `half` of the 16 values along k of step `step`.
  static CUBIT_SHARED_CODE Place word(int lane, int warp, int row, int step, int half) {
    return {2 * step + half, 4 * feature(lane, warp, row)};
  }
};

/// Words that hold 8 neighbouring features of one value along k (awq). After ldmatrix.trans a lane has every second
/// feature of a word: nibbles 0 to 3 of 16 bits, for two neighbouring values along k. Warps that load the same words
/// use different nibbles. Which nibbles depends on the lane as well, for the sake of the output's bank conflicts.
template <bool kGated>
struct FeaturesByN {
  static constexpr bool kExchanges = true;
  static constexpr int kRuns = 1;

  /// The first nibble that the lane uses of its 16 bits. If not gated, the lane also uses the next nibble.
  static CUBIT_SHARED_CODE int nibble(int lane, int warp) {
    return kGated ? (warp + lane / 8) % 4 : (warp + lane / 8) % 2 * 2;
  }
  static CUBIT_SHARED_CODE int feature(int lane, int warp, int row) {
    const int in_words = 8 * (lane / 8) + lane / 4 % 2 + 2 * nibble(lane, warp);
    return kGated ? 64 * row + warp / 4 * 32 + in_words : warp / 2 * 32 + in_words + 2 * row;
  }
  /// Row address of ldmatrix.x4.trans for the 32 values along k of steps 2 `pair` and 2 `pair` + 1. If gated, the words
  /// of gate features (row 0) and of up-projection features (row 1) are loaded one after another.
  static CUBIT_SHARED_CODE Place words(int lane, int warp, int row, int pair) {
    return {32 * pair + lane, kGated ? 32 * row + warp / 4 * 16 : warp / 2 * 16};
  }
};

/// Output features of a warpgroup.
CUBIT_SHARED_CODE int warpgroup_outputs(bool gated) { return gated ? 32 : 64; }

/// Where a lane stores run `run`, in the warpgroup's staging tile of tokens x outputs. `tokens`: index of a block of 8
/// tokens. An output has kOutputBytes bytes. A lane that exchanges outputs keeps one of its two tokens.
template <class Features, bool kGated, int kOutputBytes = 2>
CUBIT_SHARED_CODE Place stored_outputs(int lane, int warp, int tokens, int run) {
  const int kept = Features::kExchanges ? lane / 4 % 2 : run;
  const int first = Features::feature(Features::kExchanges ? lane & ~4 : lane, warp, Features::kExchanges ? run : 0);
  return {8 * tokens + 2 * (lane % 4) + kept, kOutputBytes * (first % warpgroup_outputs(kGated))};
}

}  // namespace cubit::persistent_lanes
