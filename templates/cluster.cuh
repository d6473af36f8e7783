// Blocks of a cluster: where they meet, and each other's shared memory.
//
// PTX ISA: "barrier.cluster", "mapa", "st.shared::cluster", "%cluster_ctarank", "%cluster_nctarank".
#pragma once

#include "types.cuh"

namespace cubit {

/// 1: the launch has no clusters.
__device__ __forceinline__ uint32 blocks_of_cluster() {
  uint32 count;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}
/// The block's place in its cluster.
__device__ __forceinline__ uint32 rank_in_cluster() {
  uint32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The barrier of all warps of the cluster's blocks that have not ended. What they have read and stored before they
/// arrive comes before what they do when they have waited for it.
__device__ __forceinline__ void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ __forceinline__ void sync_cluster() {
  arrive_in_cluster();
  wait_for_cluster();
}

/// The place of `address` in the shared memory of the cluster's block `rank`, its own or another.
__device__ __forceinline__ uint32 address_in_block(uint32 address, uint32 rank) {
  uint32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// To an address of address_in_block.
__device__ __forceinline__ void store_cluster(uint32 address, float2 value) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(value.x), "f"(value.y) : "memory");
}
__device__ __forceinline__ void store_cluster(uint32 address, float4 value) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(value.x), "f"(value.y),
               "f"(value.z), "f"(value.w)
               : "memory");
}

}  // namespace cubit
