// Stage copies of the sm_80 kernels: a thread's vectors of a stage go to shared memory by cp.async.
//
// Interface of this role, which stage_copies_registers.cuh implements too:
//   kAhead                  number of stages that may be in flight while one is in use
//   kHolds                  true if the vectors stay in registers until store() writes them to shared memory
//   Pieces<kBytes, kCount>  a thread's kCount vectors of kBytes bytes of one tensor. start(i, dst, src, valid) starts
//                           the copy of vector i of a stage; zeros are written if `valid` is false. store(i, dst)
//                           writes vector i to shared memory if kHolds is true, and otherwise does nothing
//   close()                 called after a stage's last vector
//   wait()                  returns when the oldest of the kAhead stages in flight has arrived
//   wait_all()              returns when no copy is in flight
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
