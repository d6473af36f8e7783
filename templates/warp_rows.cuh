// Stages with the rows of all warps side by side, keys first and then values in the same way: where a warp finds its
// own.
#pragma once

#include "gqa_decode_lanes.h"
#include "types.cuh"

namespace cubit {

/// The place of a byte of this warp's part of a tile's row, 16 of keys and 16 of values, by the layout of the rows of
/// all warps. The values are kHalfStage behind the keys. kRowWarps: where several warps have the same rows, how many
/// have others.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kRowWarps = 0>
__device__ __forceinline__ int place_in_own_row(int row, int byte) {
  int warp = warp_index();
  if constexpr (kRowWarps > 0) warp %= kRowWarps;
  return row / lanes::kTileRows * kHalfStage + kPlace(row % lanes::kTileRows, warp * kRowBytes + byte);
}

}  // namespace cubit
