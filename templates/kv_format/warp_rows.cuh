// Stages with the rows of all warps side by side, or of a few warps, keys first and then values in the same way: where
// a warp finds its own.
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"

namespace cubit {

/// This warp among those that have other rows; kSharers have the same.
template <int kSharers>
__device__ __forceinline__ int warp_of_rows() {
  return warp_index() / kSharers;
}

/// The place of a byte of this warp's part of a tile's row, 16 of keys and 16 of values, by the layout of the rows of
/// all warps. The values are kHalfStage behind the keys.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kSharers>
__device__ __forceinline__ int place_in_own_row(int row, int byte) {
  const int warp = warp_of_rows<kSharers>();
  return row / lanes::kTileRows * kHalfStage + kPlace(row % lanes::kTileRows, warp * kRowBytes + byte);
}

/// The same where kAbreast warps' rows are side by side: behind the kWarpRows rows of those are those of the next.
/// `byte` may be less than 0: a row begins anywhere in 16 bytes.
template <int (*kPlace)(int, int), int kRowBytes, int kHalfStage, int kSharers, int kAbreast, int kWarpRows>
__device__ __forceinline__ int place_in_own_rows(int row, int byte) {
  const int warp = warp_of_rows<kSharers>();
  return row / lanes::kTileRows * kHalfStage +
         kPlace(warp / kAbreast * kWarpRows + row % lanes::kTileRows, warp % kAbreast * kRowBytes + byte);
}

/// Bytes of the 16 in which this warp's rows begin that come before them, where rows are a multiple of 16 bytes and
/// kHeaderBytes more, and as many warps are abreast as make that 16.
template <int kHeaderBytes, int kSharers, int kAbreast>
__device__ __forceinline__ int bytes_before_own_rows() {
  static_assert(kHeaderBytes * kAbreast == 16);
  return warp_of_rows<kSharers>() % kAbreast * kHeaderBytes;
}

}  // namespace cubit
