// Synchronisation of a 2-CTA cluster whose blocks exchange results at their end, through pipeline stages that have been
// read.
//
// Protocol: each thread of both blocks arrives at the cluster barrier after its block has initialised the mbarriers,
// and waits at the barrier before it exchanges results. When no warp of a block reads a stage any more, one thread of
// that block reports this to the other block (release_stages). The other block then sends its results (cluster.cuh),
// and an mbarrier counts the bytes that have arrived. Neither block exits before everything that is sent to it has
// arrived.
//
// Two cluster barriers at the end would be simpler, but each would be a device-wide fence in every thread.
#pragma once

#include "core/bulk_copies.cuh"
#include "core/cluster.cuh"
#include "core/types.cuh"

namespace cubit {

constexpr uint32 kClusterBlocks = 2;

/// Addresses of the exchange mbarriers, each with one arrival per phase; the addresses are equal in both blocks.
struct ClusterBarriers {
  uint32 free;  // the other block's stages are free
  uint32 sent;  // results for this block have been sent

  __device__ __forceinline__ void init() const {
    init_barrier(free, 1);
    init_barrier(sent, 1);
  }
};

/// Maps a shared-memory address to the other block of the cluster.
__device__ __forceinline__ uint32 address_in_peer(uint32 address) {
  return address_in_block(address, rank_in_cluster() ^ 1);
}

/// Waits until this block's stages have all been read, and then allows the other block to write there. The producer
/// thread that copied the block's last stage calls the function; `place` is the place behind that stage.
template <class Ring, class Place>
__device__ __forceinline__ void release_stages(Ring ring, Place place, int stages, uint32 free) {
#pragma unroll 1
  for (int i = 0; i < stages; ++i) {
    wait_barrier(ring.empty(place), place.parity ^ 1);
    place.advance();
  }
  arrive_in_block(address_in_peer(free));
}

}  // namespace cubit
