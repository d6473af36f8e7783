// Thread block clusters: cluster-wide barriers and access to another block's shared memory.
//
// PTX ISA: "barrier.cluster", "mapa", "st.async", "cp.async.bulk", "mbarrier.arrive", "mbarrier.try_wait",
// "%cluster_ctarank", "%cluster_nctarank".
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Number of blocks in the cluster; 1 if the launch has no clusters.
__device__ __forceinline__ uint32 blocks_of_cluster() {
  uint32 count;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}
/// Rank of this block in its cluster.
__device__ __forceinline__ uint32 rank_in_cluster() {
  uint32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Cluster barrier, split into arrive and wait. All warps of the cluster's blocks that have not exited take part.
///
/// The arrival is relaxed on purpose. A thread that has waited sees the mbarriers that other blocks initialised before
/// their arrival (see fence_barrier_init), but no other writes. A releasing arrival would be a device-wide fence in
/// every thread, and that fence takes half a microsecond.
__device__ __forceinline__ void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

/// Maps `address`, a shared-memory address of this block, to the same place in the shared memory of cluster block
/// `rank`.
__device__ __forceinline__ uint32 address_in_block(uint32 address, uint32 rank) {
  uint32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// Stores `value` at a mapped address (address_in_block) and adds the bytes to the transaction count of `barrier`, a
/// second mapped address in the same block. The store needs no fence on either side.
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

/// Starts a copy of `bytes` bytes of this block's shared memory to a mapped address (address_in_block). The copy
/// completes on `barrier`, a second mapped address in the same block.
__device__ __forceinline__ void copy_to_block(uint32 address, uint32 src, uint32 bytes, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address),
      "r"(src), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Makes one arrival at a mapped mbarrier (address_in_block) that only says: this thread's warp reads a stage no more.
/// The arrival has the default scope, a block, because it publishes no write. A release at cluster scope would be a
/// device-wide fence per stage, which makes a GEMM a third slower.
__device__ __forceinline__ void release_in_block(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Makes one arrival at a mapped mbarrier (address_in_block). The arrival releases this thread's reads and writes, and
/// all accesses of other threads that this thread already observes. The release takes as long as a device-wide fence.
/// Call the function from one thread, whose delay holds up no other thread of its block.
__device__ __forceinline__ void arrive_in_block(uint32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Waits like wait_barrier, but also acquires what other blocks of the cluster wrote before their arrivals or stores.
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
