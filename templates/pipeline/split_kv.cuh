// Split-KV work distribution of the sm_75 and sm_80 attention kernels: the chunks that a block takes, and the detection
// of a sequence's last block.
//
// A chunk is the tokens that all warps of a block process in one step. A sequence of n chunks is distributed evenly
// over min(splits, n) blocks; further blocks have nothing to do. The grid depends on host-side bounds only, while the
// shares depend on the true lengths.
//
// Each block writes an unnormalised partial result. The block that arrives last at the sequence's counter reads all
// partial results (partial_results.cuh) in the order of their splits, so the outcome does not depend on which block is
// last. That block also resets the counter to zero.
//
// PTX ISA, "Memory Consistency Model": bar.sync orders a block's stores before its atom.acq_rel. When the last block
// observes the atomic, these stores are ordered before that block's loads and before its cp.async copies, which also
// use the generic proxy.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Chunks of a sequence that a block takes.
struct Share {
  int first;   // first chunk
  int last;    // one past the last chunk
  int active;  // blocks of this sequence that have work
};

__device__ __forceinline__ Share share_of(int chunks, int splits, int split) {
  // An empty sequence still has one block, which stores its zeros.
  const int active = max(1, min(chunks, splits));
  if (split >= active) return {0, 0, active};
  // The first chunks % active blocks take one chunk more.
  const int least = static_cast<int>(static_cast<uint32>(chunks) / static_cast<uint32>(active));
  const int extra = chunks - least * active;
  const int first = split * least + min(split, extra);
  return {first, first + least + (split < extra ? 1 : 0), active};
}

/// Returns true in all threads of the block that arrives last. Every thread calls the function after storing its
/// partial results. `arrived` is a word of shared memory; `sync` is a barrier of the calling threads, which include the
/// block's first thread. When the function returns true, the counter is zero again, and combine() can read the other
/// blocks' results.
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
