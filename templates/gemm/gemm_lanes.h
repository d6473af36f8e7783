// Byte offsets in a pipeline stage that each lane accesses in the GEMM. The kernels and the proofs of bank
// conflicts in the plan use the same functions.
//
// A block's columns are divided into strips of 32. A warp has one or two strips, or all strips of a narrow block, and a
// lane has four columns of each. As in mma.cuh, r is lane / 4 and c is lane % 4. A step is 32 values along k.
//
// A Place is a row and a byte in the row of one tensor of the stage: words, activations, scales or zeros. A layout
// function of the plan (word_stage, activation_stage) turns the place into an offset. The functions for ldmatrix (PTX
// ISA, "ldmatrix") return the row whose address the lane gives.
//
// "By k" are formats whose words hold 8 neighbouring values along k of one column (gptq). "By n" are formats whose
// words hold 8 neighbouring columns of one k (awq). Words of 8-bit weights hold 4 neighbouring values along k.
#pragma once

#include "core/shared_code.h"

namespace cubit::gemm_lanes {

inline constexpr int kStageK = 128;        ///< values along k per stage
inline constexpr int kChunkK = 64;         ///< values along k per chunk of activations, the unit of reordering
inline constexpr int kStepBytes = 64;      ///< bytes of a row of activations per step, which is two mma instructions
inline constexpr int kStepK = 32;          ///< 16-bit values along k per step
inline constexpr int kBlockColumns = 256;  ///< columns of the weights per block
inline constexpr int kStripColumns = 32;   ///< columns per strip
inline constexpr int kStrips = kBlockColumns / kStripColumns;
inline constexpr int kActivationBytes = 2 * kStageK;   ///< bytes per row of activations
inline constexpr int kScaleBytes = 2 * kBlockColumns;  ///< bytes per group
inline constexpr int kZeroBytes = kBlockColumns / 2;   ///< bytes per group; kBlockColumns if zeros are bytes
/// Bytes of a stage's mbarriers `arrived`, `empty` and `full` in family sm90.
inline constexpr int kStageBarrierBytes = 3 * 8;
/// Bytes of a block's mbarriers for cluster split-K: `free`, and `sent` for each of eight warps.
inline constexpr int kClusterBarrierBytes = 9 * 8;

struct Place {
  int row;
  int byte;
};

/// Vector that a thread copies in its i-th copy of a tile whose rows have `vectors` vectors. All vectors of a thread
/// have the same byte offset in their rows.
CUBIT_SHARED_CODE Place copied_vector(int i, int thread, int threads, int vectors, int copy_bytes) {
  return {i * (threads / vectors) + thread / vectors, thread % vectors * copy_bytes};
}

/// By k: the lane's words of a step, one word of 8 values along k for each of four neighbouring columns.
CUBIT_SHARED_CODE Place words_by_k(int lane, int strip, int step) {
  return {4 * step + lane % 4, 128 * strip + 16 * (lane / 4)};
}

/// By k, in family sm90: as words_by_k, but with `spread` two steps divide 8 rows of words among them: an even step has
/// the even rows, and the next step has the odd rows. The TMA swizzle then puts the words of neighbouring lanes into
/// different banks. Quantisation groups of 32 do not allow this order, because such a group has only 4 rows of words.
CUBIT_SHARED_CODE Place copied_words_by_k(int lane, int strip, int step, bool spread) {
  return {spread ? step / 2 * 8 + 2 * (lane % 4) + step % 2 : 4 * step + lane % 4, 128 * strip + 16 * (lane / 4)};
}

/// By k, 8-bit weights: a lane has 8 values along k per step, in two words of each column. The place has the first
/// (half 0) or the second (half 1) of these words for four neighbouring columns.
CUBIT_SHARED_CODE Place byte_words_by_k(int lane, int strip, int step, int half) {
  return {8 * step + 2 * (lane % 4) + half, 128 * strip + 16 * (lane / 4)};
}

/// By n: row address of ldmatrix.x4.trans for a step. Matrix i has 8 values along k, from 8i on, of the strip's 32
/// columns, which are 16 bytes.
CUBIT_SHARED_CODE Place words_by_n(int lane, int strip, int step) { return {32 * step + lane, 16 * strip}; }

/// By k: the 8 activations of a row that are multiplied with the lane's words.
CUBIT_SHARED_CODE Place activations_by_k(int lane, int tile, int step) {
  return {8 * tile + lane / 4, 64 * step + 16 * (lane % 4)};
}

/// By k, in family sm90: the 8 activations of a row that are multiplied with words at copied_words_by_k.
CUBIT_SHARED_CODE Place copied_activations_by_k(int lane, int tile, int step, bool spread) {
  return {8 * tile + lane / 4, 16 * copied_words_by_k(lane, 0, step, spread).row};
}

/// By n: row address of ldmatrix.x4 for 8 rows of activations and four times 8 values along k.
CUBIT_SHARED_CODE Place activations_by_n(int lane, int tile, int step) {
  return {8 * tile + lane % 8, 64 * step + 16 * (lane / 8)};
}

/// Scales of a group. By k: the scales of the lane's four neighbouring columns. By n: the scales of the 8 columns of a
/// word, of which the lane uses the even or the odd columns.
CUBIT_SHARED_CODE Place scales_by_k(int lane, int strip, int group) { return {group, 64 * strip + 8 * (lane / 4)}; }
CUBIT_SHARED_CODE Place scales_by_n(int lane, int strip, int group) { return {group, 64 * strip + 16 * (lane / 8)}; }

/// Word with the zeros of 8 columns. Lanes 4r … 4r + 3 use half r % 2 of the word.
CUBIT_SHARED_CODE Place zeros(int lane, int strip, int group) { return {group, 16 * strip + 4 * (lane / 8)}; }

/// Word with the zeros of the lane's four columns, stored as bytes.
CUBIT_SHARED_CODE Place byte_zeros(int lane, int strip, int group) { return {group, 32 * strip + 4 * (lane / 4)}; }

/// First of the four neighbouring columns of a strip that a lane has after the weight operand's arrange().
CUBIT_SHARED_CODE int first_column(int lane) { return 4 * (lane / 4); }

}  // namespace cubit::gemm_lanes
