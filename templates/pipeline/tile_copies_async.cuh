// Tile copies of the sm_80 attention kernel: a lane's vectors of a tile go to shared memory by cp.async.
//
// Interface of this role, which tile_copies_registers.cuh implements too:
//   start()   starts the copy of one vector of a tile
//   hold()    replaces start() for the first kHeld vectors of a tile
//   close()   called after the last vector of a tile
//   land()    called before a tile is used; returns when that tile and all earlier tiles have arrived, so that at most
//             kStages - 2 tiles are in flight
//   land_all()  called after the last tile; returns when no copy is in flight
// The loop over the vectors that are not held is unrolled kUnrolled times. The argument `place(i)` returns the
// destination of vector i of the most recently started tile; `is_idle(i)` says whether the lane has no such vector.
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
  /// Writes zeros if `valid` is false.
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
