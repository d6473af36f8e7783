// Two blocks that are a cluster and send each other something at their end, over the stages that they have read.
//
// Each thread of both arrives in the cluster when its block has met, its barriers being made, and waits for it before
// the end. One thread of each block that knows that nobody there reads a stage any more says so to the other block
// (give_stages), which then sends (cluster.cuh), and a barrier counts what has come. Neither block ends before all that
// is sent to it is there. Blocks that met at their end instead would fence the device, every thread of them, twice.
#pragma once

#include "core/bulk_copies.cuh"
#include "core/cluster.cuh"
#include "core/types.cuh"

namespace cubit {

constexpr uint32 kBlocksOfPair = 2;

/// Where the transaction barriers are, each for one arrival; in either block's memory.
struct PairBarriers {
  uint32 free;  // the other block's stages are
  uint32 sent;  // to this block

  __device__ __forceinline__ void init() const {
    init_barrier(free, 1);
    init_barrier(sent, 1);
  }
};

__device__ __forceinline__ uint32 address_in_other(uint32 address) {
  return address_in_block(address, rank_in_cluster() ^ 1);
}

/// By the thread that has copied a block's stages, from the place behind the last on: each is read, then the other
/// block may store there.
template <class Ring, class Place>
__device__ __forceinline__ void give_stages(Ring ring, Place place, int stages, uint32 free) {
#pragma unroll 1
  for (int i = 0; i < stages; ++i) {
    wait_barrier(ring.empty(place), place.parity ^ 1);
    place.advance();
  }
  arrive_in_block(address_in_other(free));
}

}  // namespace cubit
