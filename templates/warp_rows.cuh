// Stages with the rows of all warps side by side, keys first and then values in the same way: where a warp finds its
// own.
#pragma once

#include "gqa_decode_lanes.h"
#include "types.cuh"

namespace cubit {

/// The place of a byte of this warp's part of a tile's row, 16 of keys and 16 of values, by the layout of the rows of
/// all warps. The values are kHalfStage behind the keys. kSharers: warps that have the same rows.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kSharers>
__device__ __forceinline__ int place_in_own_row(int row, int byte) {
  const int warp = warp_index() / kSharers;
  return row / lanes::kTileRows * kHalfStage + kPlace(row % lanes::kTileRows, warp * kRowBytes + byte);
}

}  // namespace cubit
