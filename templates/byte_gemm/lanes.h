// Rows and bytes in a pipeline stage that each lane accesses when weights are bytes [n, k]. The kernels use these
// functions, and the plan counts bank conflicts with the same functions. See gemm_lanes.h.
//
// The stage holds a row of 128 bytes for each column of the weights, and ldmatrix reads 8 rows of 16 bytes for each of
// its matrices. Each matrix gives lane 4r + c the matrix's row r. A lane must have the neighbouring columns 4r … 4r + 3
// of a strip, so row 8 i + r of a strip in the stage holds column 4r + i of the strip.
#pragma once

#include "gemm/gemm_lanes.h"

namespace cubit::byte_lanes {

inline constexpr int kStageK = 128;       ///< bytes of a row of weights or activations in a stage
inline constexpr int kProductBytes = 32;  ///< bytes along k of one mma instruction

/// Column of the block that a row of the stage holds.
CUBIT_SHARED_CODE int column_of_row(int row) { return row / 32 * 32 + 4 * (row % 8) + row / 8 % 4; }

/// Row address of ldmatrix.x4 for the A operand of one mma instruction: product 0 or 1 of a step, and tile 0 or 1 of 16
/// rows of a strip. Matrices 0 and 1 have the first 16 bytes along k of the tile's rows 0 … 7 and 8 … 15.
CUBIT_SHARED_CODE gemm_lanes::Place words(int lane, int strip, int tile, int step, int product) {
  return {32 * strip + 16 * tile + lane % 16,
          gemm_lanes::kStepBytes * step + kProductBytes * product + 16 * (lane / 16)};
}

}  // namespace cubit::byte_lanes
