// Stage copies of the sm_75 kernels: a thread's vectors of a stage are loaded into registers and stored to shared
// memory one stage later, because sm_75 has no cp.async. stage_copies_async.cuh describes the interface.
//
// The registers hold the next stage while one stage is in use. One stage of shared memory is therefore enough, which
// leaves room for further resident blocks that compute while this block stores.
#pragma once

#include "core/copies.cuh"

namespace cubit {

struct HeldStageCopies {
  static constexpr int kAhead = 1;
  static constexpr bool kHolds = true;

  /// The index `i` must be a compile-time constant in every call.
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
