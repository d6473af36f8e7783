// Place of a warp's rows in a stage of the sm_90 kernel. A row of the stage has the rows of all warps next to each
// other, or for unaligned rows the rows of kInterleaved warps (sm90_gqa_decode.cuh, "Stage layout"). Keys come first,
// followed by values in the same layout.
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"

namespace cubit {

/// Index of this warp among the warps with different rows; kSharers warps share the same rows.
template <int kSharers>
__device__ __forceinline__ int warp_of_rows() {
  return warp_index() / kSharers;
}

/// Offset of a byte in a stage for aligned rows: byte `byte` of this warp's row `row`, where rows 0 … 15 are keys and
/// rows 16 … 31 are values. kPlace is the layout of the stage's keys, whose rows are kRowBytes per warp. The values are
/// kHalfStage bytes behind the keys.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kSharers>
__device__ __forceinline__ int place_in_own_row(int row, int byte) {
  const int warp = warp_of_rows<kSharers>();
  return row / lanes::kTileRows * kHalfStage + kPlace(row % lanes::kTileRows, warp * kRowBytes + byte);
}

/// The same for unaligned rows, where a row of the stage has the rows of kInterleaved warps. The kWarpRows rows of one
/// set of kInterleaved warps come first, then the rows of the next set. `byte` may be negative: loads begin at the
/// 16-byte vector in which the warp's row begins.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kSharers, int kInterleaved, int kWarpRows>
__device__ __forceinline__ int place_in_own_rows(int row, int byte) {
  const int warp = warp_of_rows<kSharers>();
  return row / lanes::kTileRows * kHalfStage +
         kPlace(warp / kInterleaved * kWarpRows + row % lanes::kTileRows, warp % kInterleaved * kRowBytes + byte);
}

/// Bytes of other warps' rows that come before this warp's row in the 16-byte vector in which the row begins. A row is
/// kHeaderBytes longer than a multiple of 16 bytes, so each warp's row begins kHeaderBytes further on in its vector
/// than the previous warp's row. The rows of kInterleaved warps together are a multiple of 16 bytes.
template <int kHeaderBytes, int kSharers, int kInterleaved>
__device__ __forceinline__ int bytes_before_own_rows() {
  static_assert(kHeaderBytes * kInterleaved == 16);
  return warp_of_rows<kSharers>() % kInterleaved * kHeaderBytes;
}

}  // namespace cubit
