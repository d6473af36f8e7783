// How a lane's pieces of a tile come into shared memory: by cp.async. Family sm80.
//
// Interface of this role, which tile_copies_registers.cuh has as well: start() for each piece of a tile, close() behind
// the last, and before a tile is used land(), which returns when it and those before it are there: kStages - 2 may be
// under way. Of the first kHeld pieces of a tile hold() takes the place of start(); the loop over the others is
// unrolled kUnrolled times. `place(i)`: where piece i of the tile that was started last has to go; `is_idle(i)`:
// whether the lane has none.
#pragma once

#include "core/copies.cuh"

namespace cubit {

template <int kBytes, int kStages>
class AsyncTileCopies {
 public:
  static constexpr int kHeld = 0;
  static constexpr int kUnrolled = 1;

  __device__ __forceinline__ void start(uint32 dst, const char* src) {
    copy_async<kBytes>(dst, src);  // access: cp.async of rows
  }
  /// Zeros where !valid.
  __device__ __forceinline__ void start(uint32 dst, const char* src, bool valid) {
    copy_async<kBytes>(dst, src, valid);  // access: cp.async of rows
  }
  __device__ __forceinline__ void hold(int, const char*, bool) {}
  __device__ __forceinline__ void close() { commit_copies(); }
  template <class Place, class IsIdle>
  __device__ __forceinline__ void land(Place&&, IsIdle&&) {
    wait_copies<kStages - 2>();
  }
  __device__ __forceinline__ void land_all() { wait_copies<0>(); }
};

}  // namespace cubit
