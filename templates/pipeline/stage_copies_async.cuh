// How a thread's pieces of a stage come into shared memory: by cp.async. Family sm80.
//
// Interface of this role, which stage_copies_registers.cuh has as well:
//   kAhead                  stages that may be on their way while one is used
//   kHolds                  whether pieces are in registers until store() puts them where they go
//   Pieces<kBytes, kCount>  a thread's pieces of one tensor: start(i, dst, src, valid) for each of a stage, zeros where
//                           !valid
//   close()                 behind a stage's last piece
//   wait()                  returns when the oldest of kAhead stages is there; wait_all(): all of them
#pragma once

#include "core/copies.cuh"

namespace cubit {

template <int kStages>
struct AsyncStageCopies {
  static constexpr int kAhead = kStages - 1;
  static constexpr bool kHolds = false;

  template <int kBytes, int>
  struct Pieces {
    __device__ __forceinline__ void start(int, uint32 dst, const char* src, bool valid) {
      copy_async<kBytes>(dst, src, valid);
    }
    __device__ __forceinline__ void store(int, uint32) const {}
  };

  static __device__ __forceinline__ void close() { commit_copies(); }
  static __device__ __forceinline__ void wait() { wait_copies<kAhead - 1>(); }
  static __device__ __forceinline__ void wait_all() { wait_copies<0>(); }
};

}  // namespace cubit
