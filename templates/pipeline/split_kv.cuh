// Work split of families sm75 and sm80: which chunks of a sequence a block takes, and which of its blocks is the last.
//
// A chunk is the tokens that all warps of a block take in one step. A sequence of n chunks is dealt out evenly to
// min(splits, n) blocks; the others have nothing to do. The grid depends on host-side bounds only, the shares on the
// true lengths. Each block writes an unnormalised partial output; the block that is last at the sequence's counter
// reads them all (partial_results.cuh) in order of their split, so the result does not depend on who was last, and sets the
// counter back to zero.
//
// PTX ISA, "Memory Consistency Model": bar.sync orders a block's stores before its atom.acq_rel, whose observation by
// the last block orders them before that block's loads, and its cp.async, which are of the generic proxy as well.
#pragma once

#include "core/types.cuh"

namespace cubit {

struct Share {
  int first;   // chunk
  int last;    // one past
  int active;  // blocks of this sequence that have work
};

__device__ __forceinline__ Share share_of(int chunks, int splits, int split) {
  const int active = max(1, min(chunks, splits));  // an empty sequence still has one block, which stores its zeros
  if (split >= active) return {0, 0, active};
  // The first chunks % active blocks take one chunk more.
  const int least = static_cast<int>(static_cast<uint32>(chunks) / static_cast<uint32>(active));
  const int extra = chunks - least * active;
  const int first = split * least + min(split, extra);
  return {first, first + least + (split < extra ? 1 : 0), active};
}

/// Called by every thread after its partial results are stored; `arrived` is a word of shared memory, `sync` a barrier
/// of these threads, with the block's first among them. True in all threads of the block that arrives last; the counter
/// is then zero again and combine can read the other blocks' results.
template <class Sync>
__device__ __forceinline__ bool last_block(uint32* counter, int active, volatile uint32* arrived, Sync&& sync) {
  sync();
  if (threadIdx.x == 0) {
    uint32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    if (before == static_cast<uint32>(active) - 1) *counter = 0;
    *arrived = before;
  }
  sync();
  return *arrived == static_cast<uint32>(active) - 1;
}

}  // namespace cubit
