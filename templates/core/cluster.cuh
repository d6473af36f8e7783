// Blocks of a cluster: where they meet, and each other's shared memory.
//
// PTX ISA: "barrier.cluster", "mapa", "st.async", "mbarrier.try_wait", "%cluster_ctarank", "%cluster_nctarank".
#pragma once

#include "core/types.cuh"

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

/// The barrier of all warps of the cluster's blocks that have not ended. Those who have waited for it know of the
/// transaction barriers that others had made (fence_barrier_init) before they arrived, and of nothing else: that would
/// be a fence of the whole device in every thread, half a microsecond.
__device__ __forceinline__ void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

/// The place of `address` in the shared memory of the cluster's block `rank`, its own or another.
__device__ __forceinline__ uint32 address_in_block(uint32 address, uint32 rank) {
  uint32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// Stores at an address of address_in_block, and tells the transaction barrier there, another such address, that so
/// many bytes have come. Nobody else need fence anything.
__device__ __forceinline__ void send(uint32 address, float2 value, uint32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1,%2}, [%3];" ::"r"(address),
               "f"(value.x), "f"(value.y), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void send(uint32 address, float4 value, uint32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(address),
               "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
               : "memory");
}

/// One arrival at a barrier at an address of address_in_block: what this thread has read and written, and what it knows
/// that others have, comes before. A fence of the device: by one thread, that nobody waits for meanwhile.
__device__ __forceinline__ void arrive_in_block(uint32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// As wait_barrier, where other blocks arrive or send.
__device__ __forceinline__ void wait_barrier_of_cluster(uint32 barrier, uint32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace cubit
