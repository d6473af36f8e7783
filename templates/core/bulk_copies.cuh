// Hopper (sm_90) building blocks: TMA box copies, mbarriers and register reallocation between warpgroups.
//
// A TMA box copy moves a box of a tensor from global to shared memory and completes on an mbarrier, whose transaction
// count says when all bytes have arrived. A box copy in the other direction belongs to a group of stores.
//
// PTX ISA: "cp.async.bulk.tensor", "mbarrier", "Asynchronous proxy", "setmaxnreg".
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Sets the number of registers per thread to kCount from here on: give_registers lowers the number, take_registers
/// raises it. kCount is a multiple of 8 from 24 to 256; 0 keeps the number that the kernel was launched with. All warps
/// of a warpgroup (warps 4i to 4i + 3 of the block) must call the function. take_registers waits until other warpgroups
/// have released enough registers.
template <int kCount>
__device__ __forceinline__ void give_registers() {
  if constexpr (kCount > 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  if constexpr (kCount > 0) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Returns true in exactly one lane of the warp. The compiler knows that a single lane is elected, so uses of uniform
/// registers need no loop over lanes.
__device__ __forceinline__ bool elect_one() {
  uint32 elected;
  asm volatile(
      "{\n"
      ".reg .pred one;\n"
      "elect.sync _|one, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, one;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

/// Initialises the mbarrier for `arrivals` arrivals per phase; one thread calls the function. That thread may start
/// copies that complete on the mbarrier at once: "cp.async.bulk.tensor" accesses its mbarrier through the generic
/// proxy, in the order of the thread's program. Other threads of the block see the mbarrier after a block-wide barrier;
/// threads of other blocks of a cluster also need fence_barrier_init().
__device__ __forceinline__ void init_barrier(uint32 barrier, uint32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Makes one arrival of the phase and adds `bytes` to the number of bytes that the phase expects from copies.
__device__ __forceinline__ void expect_bytes(uint32 barrier, uint32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Makes `arrivals` arrivals of the phase. All earlier reads and writes of this thread are ordered before the arrivals.
__device__ __forceinline__ void arrive(uint32 barrier, uint32 arrivals = 1) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes one arrival of the phase as soon as all cp.async copies that this thread has issued so far are complete.
__device__ __forceinline__ void arrive_after_copies(uint32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Waits until the phase with the given parity is complete. The first phase has parity 0.
__device__ __forceinline__ void wait_barrier(uint32 barrier, uint32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Index into a ring of barriers, together with the phase parity of the current round.
template <int kCount>
struct RingPlace {
  int index = 0;
  uint32 parity = 0;

  __device__ __forceinline__ void advance() {
    if (++index < kCount) return;
    index = 0;
    parity ^= 1;
  }
};

/// Starts a copy of `bytes` bytes of global memory that adds them to the transaction count of `barrier`. Both addresses
/// and `bytes` are multiples of 16. One thread calls the function.
__device__ __forceinline__ void copy_bytes(uint32 dst, const void* src, uint32 bytes, uint32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
               "l"(src), "r"(bytes), "r"(barrier)
               : "memory");
}

/// A tensor map in the driver's encoding; see runtime/tensor_map.hpp.
struct alignas(128) TensorMap {
  unsigned char bytes[128];
};

/// Prefetches the tensor map, which a copy will use soon.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Starts a TMA box copy of a five-dimensional tensor that adds its bytes to the transaction count of `barrier`. The
/// box begins at element 0 of the first (contiguous) dimension and at elements y, z, u, v of the other four. Elements
/// outside the tensor are filled with zeros. `dst` is a shared-memory address and a multiple of 128 bytes. One thread
/// calls the function.
__device__ __forceinline__ void copy_box(uint32 dst, const TensorMap& map, int y, int z, int u, int v, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, %2, %3, %4, %5}], "
      "[%6];" ::"r"(dst),
      "l"(&map), "r"(y), "r"(z), "r"(u), "r"(v), "r"(barrier)
      : "memory");
}

/// L2 cache policy for copied lines that no other block reads again: the L2 evicts these lines first.
struct EvictFirst {
  uint64 policy;

  __device__ __forceinline__ EvictFirst() {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  }
};

/// Starts the same five-dimensional box copy under the evict-first policy.
__device__ __forceinline__ void copy_box(uint32 dst, const TensorMap& map, int y, int z, int u, int v, uint32 barrier,
                                         EvictFirst evict_first) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {0, %2, "
      "%3, %4, %5}], [%6], %7;" ::"r"(dst),
      "l"(&map), "r"(y), "r"(z), "r"(u), "r"(v), "r"(barrier), "l"(evict_first.policy)
      : "memory");
}

/// Starts a box copy of a two-dimensional tensor, from element x of the first and element y of the second dimension.
__device__ __forceinline__ void copy_box(uint32 dst, const TensorMap& map, int x, int y, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          dst),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

/// Starts a box copy of a four-dimensional tensor, from element x of the first and element u of the last dimension, and
/// from element 0 of the two dimensions between them.
__device__ __forceinline__ void copy_box_4d(uint32 dst, const TensorMap& map, int x, int u, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, 0, 0, %3}], [%4];" ::
          "r"(dst),
      "l"(&map), "r"(x), "r"(u), "r"(barrier)
      : "memory");
}

/// Starts a two-dimensional box copy into all blocks of the cluster whose bit of `blocks` is set. In each of
/// these blocks the box lands at `dst` and completes on the mbarrier at `barrier`.
__device__ __forceinline__ void copy_box_to_blocks(uint32 dst, const TensorMap& map, int x, int y, uint32 barrier,
                                                   uint16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3}], [%4], %5;" ::"r"(dst),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

/// Starts a box copy from shared memory to a two-dimensional tensor. Elements outside the tensor are not written. The
/// copy belongs to this thread's current group of stores.
__device__ __forceinline__ void store_box(const TensorMap& map, int x, int y, uint32 src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x),
               "r"(y), "r"(src)
               : "memory");
}
/// Closes this thread's current group of stores.
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until at most kPending of this thread's newest groups of stores still read shared memory.
template <int kPending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
/// Waits until this thread's stores are complete.
__device__ __forceinline__ void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Orders this thread's earlier accesses to shared memory before bulk copies that are issued after the fence.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Orders this thread's earlier accesses to all memory before bulk copies that are issued after the fence.
__device__ __forceinline__ void fence_async_proxy_everywhere() { asm volatile("fence.proxy.async;" ::: "memory"); }

}  // namespace cubit
