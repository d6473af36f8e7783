// Which byte of a stage each lane touches: one statement, used by the kernels and by the plan's proofs
// (ops/w4a16_gemm/accesses.cpp). The block's columns are strips of 32;
// a warp has one or two of them, a lane four columns of each.
//
// "By k" are formats whose words hold 8 neighbours along k of one column (gptq), "by n" those whose words hold 8
// neighbouring columns of one k (awq). Of weights of 8 bits, by k, words hold 4 neighbours.
#pragma once

#include "core/shared_code.h"

namespace cubit::gemm_lanes {

inline constexpr int kStageK = 128;        ///< of a stage
inline constexpr int kChunkK = 64;         ///< of activations, in which they are put in order
inline constexpr int kStepK = 32;          ///< of a step, which is two products of the tensor cores
inline constexpr int kBlockColumns = 256;  ///< of the weights
inline constexpr int kStripColumns = 32;   ///< of a strip
inline constexpr int kStrips = kBlockColumns / kStripColumns;
inline constexpr int kActivationBytes = 2 * kStageK;   ///< of a row
inline constexpr int kScaleBytes = 2 * kBlockColumns;  ///< of a group
inline constexpr int kZeroBytes = kBlockColumns / 2;   ///< of a group; of bytes kBlockColumns
inline constexpr int kStageBarrierBytes = 3 * 8;       ///< family sm90: a stage has arrived, is empty, is full
inline constexpr int kClusterBarrierBytes =
    9 * 8;  ///< family sm90, pairs: stages are free, what each warp is sent has come

struct Place {
  int row;
  int byte;
};

/// Copies: what a thread takes with the i-th copy of a tile whose rows are `pieces` copies. Its column stays the same.
CUBIT_SHARED_CODE Place copied_vector(int i, int thread, int threads, int vectors, int copy_bytes) {
  return {i * (threads / vectors) + thread / vectors, thread % vectors * copy_bytes};
}

/// By k: 8 k's of each of four neighbouring columns.
CUBIT_SHARED_CODE Place words_by_k(int lane, int strip, int step) {
  return {4 * step + lane % 4, 128 * strip + 16 * (lane / 4)};
}

/// By k, in family sm90: every second of 8 rows, so that the swizzle of a tensor map puts those of two neighbouring
/// rows of lanes into different banks; not where groups are of 4 rows.
CUBIT_SHARED_CODE Place copied_words_by_k(int lane, int strip, int step, bool spread) {
  return {spread ? step / 2 * 8 + 2 * (lane % 4) + step % 2 : 4 * step + lane % 4, 128 * strip + 16 * (lane / 4)};
}

/// By k, weights of 8 bits: in two halves, 4 k's of each of four neighbouring columns.
CUBIT_SHARED_CODE Place byte_words_by_k(int lane, int strip, int step, int half) {
  return {8 * step + 2 * (lane % 4) + half, 128 * strip + 16 * (lane / 4)};
}

/// By n, ldmatrix.x4.trans of a step's 32 k's.
CUBIT_SHARED_CODE Place words_by_n(int lane, int strip, int step) { return {32 * step + lane, 16 * strip}; }

/// By k: the 8 activations of a row that meet the lane's words.
CUBIT_SHARED_CODE Place activations_by_k(int lane, int tile, int step) {
  return {8 * tile + lane / 4, 64 * step + 16 * (lane % 4)};
}

/// The same that meet words by copied_words_by_k.
CUBIT_SHARED_CODE Place copied_activations_by_k(int lane, int tile, int step, bool spread) {
  return {8 * tile + lane / 4, 16 * copied_words_by_k(lane, 0, step, spread).row};
}

/// By n, ldmatrix.x4 of 8 rows: four times 8 k's.
CUBIT_SHARED_CODE Place activations_by_n(int lane, int tile, int step) {
  return {8 * tile + lane % 8, 64 * step + 16 * (lane / 8)};
}

/// By k: scales of four neighbouring columns; by n: of the 8 columns of a word.
CUBIT_SHARED_CODE Place scales_by_k(int lane, int strip, int group) { return {group, 64 * strip + 8 * (lane / 4)}; }
CUBIT_SHARED_CODE Place scales_by_n(int lane, int strip, int group) { return {group, 64 * strip + 16 * (lane / 8)}; }

/// The word of zeros of 8 columns; lanes r use its half r % 2.
CUBIT_SHARED_CODE Place zeros(int lane, int strip, int group) { return {group, 16 * strip + 4 * (lane / 8)}; }

/// The word of zeros of the lane's four columns, which are bytes.
CUBIT_SHARED_CODE Place byte_zeros(int lane, int strip, int group) { return {group, 32 * strip + 4 * (lane / 4)}; }

/// The first of the four neighbouring columns that a lane has of a strip, once they are in order.
CUBIT_SHARED_CODE int first_column(int lane) { return 4 * (lane / 4); }

}  // namespace cubit::gemm_lanes
