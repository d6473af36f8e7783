// Stages with the rows of all warps side by side: where a warp finds its own.
#pragma once

#include "types.cuh"

namespace cubit {

/// The place of a byte of this warp's part of a stage's row, by the layout of the whole row.
template <int (*kPlace)(int, int), int kRowBytes>
__device__ __forceinline__ int place_in_own_row(int row, int byte) {
  return kPlace(row, warp_index() * kRowBytes + byte);
}

}  // namespace cubit
