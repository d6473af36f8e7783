// How a lane's pieces of a tile come into shared memory: by loads, and by stores a tile later. Family sm75, which has
// no cp.async. The interface is described in tile_copies_async.cuh.
//
// The first kHeld pieces of the next tile are in registers while a tile is used; land() stores them. Of rows that are
// too wide for that the others are loaded and stored when the tile is started, into the stage that is not in use.
#pragma once

#include "core/copies.cuh"

namespace cubit {

template <int kBytes, int kStages, int kHeldPieces>
class HeldTileCopies {
 public:
  static constexpr int kHeld = kHeldPieces;
  static constexpr int kUnrolled = 4;
  static_assert(kStages == 2 && kHeld > 0, "the one tile that is under way is in registers");

  /// `i` is a constant. Zeros where !valid.
  __device__ __forceinline__ void hold(int i, const char* src, bool valid) {
    load_global<kWords, kBytes>(held_[i], src, valid);
    is_under_way_ = true;
  }
  __device__ __forceinline__ void start(uint32 dst, const char* src, bool valid) {
    uint32 words[kWords];
    load_global<kWords, kBytes>(words, src, valid);
    store_shared(dst, words);  // access: stores of rows
  }
  __device__ __forceinline__ void start(uint32 dst, const char* src) { start(dst, src, true); }
  __device__ __forceinline__ void close() {}
  template <class Place, class IsIdle>
  __device__ __forceinline__ void land(Place&& place, IsIdle&& is_idle) {
    if (!is_under_way_) return;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (!is_idle(i)) store_shared(place(i), held_[i]);  // access: stores of rows
    }
    is_under_way_ = false;
  }
  __device__ __forceinline__ void land_all() {}

 private:
  static constexpr int kWords = kBytes / 4;

  uint32 held_[kHeld][kWords];
  bool is_under_way_ = false;  // the same of all lanes
};

}  // namespace cubit
