// Place of a warp's rows in a stage that interleaves the rows of all warps, or of a few warps. Keys come first,
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

/// Place of a byte of this warp's part of a tile's row, where a tile has 16 rows of keys and 16 rows of values. kPlace
/// is the layout of the rows of all warps. The values are kHalfStage bytes behind the keys.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kSharers>
__device__ __forceinline__ int place_in_own_row(int row, int byte) {
  const int warp = warp_of_rows<kSharers>();
  return row / lanes::kTileRows * kHalfStage + kPlace(row % lanes::kTileRows, warp * kRowBytes + byte);
}

/// Place of a byte if the rows of kInterleaved warps are interleaved: behind the kWarpRows rows of one set of warps
/// come the rows of the next set. `byte` may be negative, because a row begins anywhere in a 16-byte vector.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kSharers, int kInterleaved, int kWarpRows>
__device__ __forceinline__ int place_in_own_rows(int row, int byte) {
  const int warp = warp_of_rows<kSharers>();
  return row / lanes::kTileRows * kHalfStage +
         kPlace(warp / kInterleaved * kWarpRows + row % lanes::kTileRows, warp % kInterleaved * kRowBytes + byte);
}

/// Bytes that come before this warp's rows in the 16-byte vector in which they begin. Rows are kHeaderBytes longer than
/// a multiple of 16 bytes, and the number of interleaved warps makes their total a multiple of 16.
template <int kHeaderBytes, int kSharers, int kInterleaved>
__device__ __forceinline__ int bytes_before_own_rows() {
  static_assert(kHeaderBytes * kInterleaved == 16);
  return warp_of_rows<kSharers>() % kInterleaved * kHeaderBytes;
}

}  // namespace cubit
