// Copy pacing: throttles a block's producer to an equal share of the memory bandwidth.
//
// A producer starts a stage's copies no sooner than the memory could have delivered the previous stages at equal
// shares. Without pacing, blocks that request as much as they have room for do not get equal shares: the blocks of some
// SMs get a tenth more, and the slowest block ends the launch. See bench/notes/gqa_decode.md, "Copy pacing".
//
// A block that is behind schedule starts copies as soon as a stage is free. Nothing is lost if the memory is slower
// than the host assumes.
//
// PTX ISA: "%globaltimer".
#pragma once

#include "core/types.cuh"
#include "pipeline/copy_deadline.h"

namespace cubit {

/// Reads a clock that all SMs share. The device decides how often the clock ticks. The PTX ISA says that %globaltimer
/// is meant for tools and may behave differently on future devices, so no caller waits for the clock without a bound.
__device__ __forceinline__ uint64 global_nanoseconds() {
  uint64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Copy pacer of the thread that issues the copies. The first kAtOnce stages start without pacing; kAtOnce = 0 disables
/// pacing.
template <int kAtOnce>
class CopyPacer {
 public:
  /// `interval` is the time between two stages in nanoseconds; 0 disables pacing.
  explicit __device__ __forceinline__ CopyPacer(uint32 interval) : deadline_{0, interval} {
    if (interval != 0) deadline_.at = global_nanoseconds() - (kAtOnce - 1) * static_cast<uint64>(interval);
  }

  /// Call before the copies of each stage, the first included. One clock read takes longer than a nanosecond. If the
  /// clock has not passed the deadline after `interval` reads, it stands still, and the pacer does not read it again.
  __device__ __forceinline__ void wait() {
    uint32 reads = deadline_.interval;
    while (reads != 0 && !deadline_.has_passed(global_nanoseconds())) --reads;
    if (reads == 0) deadline_.interval = 0;
  }

 private:
  CopyDeadline deadline_;  // of the next stage
};

template <>
class CopyPacer<0> {
 public:
  explicit __device__ __forceinline__ CopyPacer(uint32) {}
  __device__ __forceinline__ void wait() {}
};

}  // namespace cubit
