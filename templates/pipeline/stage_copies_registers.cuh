// How a thread's pieces of a stage come into shared memory: by loads, and by stores a stage later. Family sm75, which
// has no cp.async. The interface is described in stage_copies_async.cuh.
//
// The next stage is in registers while one is used; so one stage of shared memory is enough, and a block leaves room
// for others, which compute while it stores.
#pragma once

#include "core/copies.cuh"

namespace cubit {

struct HeldStageCopies {
  static constexpr int kAhead = 1;
  static constexpr bool kHolds = true;

  /// Every `i` is a constant.
  template <int kBytes, int kCount>
  class Pieces {
   public:
    __device__ __forceinline__ void start(int i, uint32, const char* src, bool valid) {
      load_global<kBytes / 4, kBytes>(held_[i], src, valid);
    }
    __device__ __forceinline__ void store(int i, uint32 dst) const { store_shared(dst, held_[i]); }

   private:
    uint32 held_[kCount][kBytes / 4];
  };

  static __device__ __forceinline__ void close() {}
  static __device__ __forceinline__ void wait() {}
  static __device__ __forceinline__ void wait_all() {}
};

}  // namespace cubit
