// Pipeline stage of one warp in the sm_80 kernel: 16 rows of keys, then 16 rows of values. The role says where each
// byte lies and which lane copies it.
//
// Interface of the role plan::Stage:
//   kCopies           copies of kCopyBytes per lane for a tile of keys and values
//   vector(i, lane)   the vector that a lane copies with copy i: rows 0 … 15 are keys, further rows values; bytes count
//                     as in the cache
//   is_idle(i, lane)  whether the lane has nothing to copy in copy i. If no lane of copy i is idle, the result is a
//                     compile-time constant, so that the copy has no branch
//   slot(vector)      offset of the vector in the stage, in bytes
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"

namespace cubit {

/// Stage whose keys and values have one format: 32 rows of one layout, copied without regard to keys or values.
template <class Rows, int kCopyBytes, int (*kPlace)(int, int)>
struct StageOfOneFormat {
  static_assert(Rows::kRowBytes % kCopyBytes == 0);
  static constexpr int kCopies = Rows::kRowBytes / kCopyBytes;

  static constexpr __device__ lanes::Place vector(int i, int lane) {
    return lanes::copied_piece(i, lane, Rows::kHeaderBytes, Rows::kRowBytes, kCopyBytes, 2 * lanes::kTileRows);
  }
  static constexpr __device__ bool is_idle(int, int) { return false; }
  static constexpr __device__ int slot(lanes::Place vector) {
    return kPlace(vector.row, Rows::stage_byte(vector.byte));
  }
};

/// Stage whose keys and values have two formats: one layout for each, and copies of keys before copies of values. If
/// the vectors of 16 rows are no multiple of a warp's lanes, some lanes of the last copy have nothing to do.
template <class Keys, class Values, int kCopyBytes, int (*kKeyPlace)(int, int), int (*kValuePlace)(int, int)>
struct StageOfTwoFormats {
  static_assert(Keys::kRowBytes % kCopyBytes == 0 && Values::kRowBytes % kCopyBytes == 0);
  static constexpr int kKeyCopies =
      lanes::count_copies(Keys::kHeaderBytes, Keys::kRowBytes, kCopyBytes, lanes::kTileRows);
  static constexpr int kCopies =
      kKeyCopies + lanes::count_copies(Values::kHeaderBytes, Values::kRowBytes, kCopyBytes, lanes::kTileRows);

  static constexpr __device__ lanes::Place vector(int i, int lane) {
    if (i < kKeyCopies) {
      return lanes::copied_piece(i, lane, Keys::kHeaderBytes, Keys::kRowBytes, kCopyBytes, lanes::kTileRows);
    }
    lanes::Place place = lanes::copied_piece(i - kKeyCopies, lane, Values::kHeaderBytes, Values::kRowBytes, kCopyBytes,
                                             lanes::kTileRows);
    place.row += lanes::kTileRows;
    return place;
  }
  static constexpr __device__ bool is_idle(int i, int lane) {
    const int end = i < kKeyCopies ? lanes::kTileRows : 2 * lanes::kTileRows;
    return vector(i, kWarpSize - 1).row >= end && vector(i, lane).row >= end;
  }
  static constexpr __device__ int slot(lanes::Place vector) {
    if (vector.row < lanes::kTileRows) return kKeyPlace(vector.row, Keys::stage_byte(vector.byte));
    return kValuePlace(vector.row, Values::stage_byte(vector.byte));
  }
};

/// Place of a byte of a value row, for a layout of values alone that begins kKeyBytes behind the keys.
template <int (*kPlace)(int, int), int kKeyBytes>
__device__ constexpr int place_of_value(int row, int byte) {
  return kKeyBytes + kPlace(row - lanes::kTileRows, byte);
}

}  // namespace cubit
