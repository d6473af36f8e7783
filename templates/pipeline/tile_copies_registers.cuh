// Tile copies of the sm_75 attention kernel: a lane's vectors of a tile are loaded into registers and stored to shared
// memory one tile later, because sm_75 has no cp.async. tile_copies_async.cuh describes the interface.
//
// The registers hold the first kHeld vectors of the next tile while a tile is in use; land() stores them. If rows are
// too wide for the registers, the remaining vectors are loaded and stored as soon as the tile is started, into the
// stage that is not in use.
#pragma once

#include "core/copies.cuh"

namespace cubit {

template <int kBytes, int kStages, int kHeldVectors>
class HeldTileCopies {
 public:
  static constexpr int kHeld = kHeldVectors;
  static constexpr int kUnrolled = 4;
  static_assert(kStages == 2 && kHeld > 0, "the one tile in flight is in registers");

  /// `i` must be a compile-time constant. Zeros are held if `valid` is false.
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
  bool is_under_way_ = false;  // uniform across the warp
};

}  // namespace cubit
