// When a block starts its copies: no sooner than the memory can have brought those before, had every block an even
// share of it. Blocks that ask for all that they have room for do not get even shares: those of some SMs get a tenth
// more, and the slowest ends the launch. See docs/performance/gqa_decode_sm90.md, version 11.
//
// A block that is behind starts copies as soon as there is room for them, so nothing is lost where the memory is slower
// than the host thinks.
//
// PTX ISA: "%globaltimer".
#pragma once

#include "core/types.cuh"
#include "pipeline/copy_deadline.h"

namespace cubit {

/// Of a clock that all SMs have; how often it moves on is the device's. PTX ISA: it is meant for tools, and on devices
/// that are yet to come it may do anything. So nobody waits for it for ever.
__device__ __forceinline__ uint64 global_nanoseconds() {
  uint64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Of a thread that starts copies. kAtOnce: of stages, those at the beginning that wait for no time; 0: none waits.
template <int kAtOnce>
class Pace {
 public:
  /// `interval`: from one stage to the next, in nanoseconds; 0: none waits.
  explicit __device__ __forceinline__ Pace(uint32 interval) : due_{0, interval} {
    if (interval != 0) due_.at = global_nanoseconds() - (kAtOnce - 1) * static_cast<uint64>(interval);
  }

  /// Before the copies of each stage, the first counted too. A look takes longer than a nanosecond: a clock that has
  /// not come to an interval's end after so many looks stands still, and is not asked again.
  __device__ __forceinline__ void wait() {
    uint32 looks = due_.interval;
    while (looks != 0 && !due_.has_come(global_nanoseconds())) --looks;
    if (looks == 0) due_.interval = 0;
  }

 private:
  DueTime due_;  // of the next stage
};

template <>
class Pace<0> {
 public:
  explicit __device__ __forceinline__ Pace(uint32) {}
  __device__ __forceinline__ void wait() {}
};

}  // namespace cubit
