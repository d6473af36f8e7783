// What sm_90 brought: copies of boxes of tensors from global to shared memory, the transaction barriers that say when
// they have arrived, and registers that change hands.
//
// PTX ISA: "cp.async.bulk.tensor", "mbarrier", "Asynchronous proxy", "setmaxnreg".
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Registers per thread from here on, fewer or more than the kernel began with; 0: as before. All warps of a warpgroup
/// (four warps, from a multiple of four on) call it, those that want more wait until others have given them.
template <int kCount>
__device__ __forceinline__ void give_registers() {
  if constexpr (kCount > 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  if constexpr (kCount > 0) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// True in one lane of the warp, which the compiler knows to be one: uniform registers need no loop over lanes.
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

/// One thread makes the barrier, for so many arrivals per phase. It may start copies that tell it at once:
/// "cp.async.bulk.tensor" accesses its mbarrier by the generic proxy, in the thread's order. Other threads of the block
/// know of it when they have met this one, those of other blocks of a cluster by the fence as well.
__device__ __forceinline__ void init_barrier(uint32 barrier, uint32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// One of the phase's arrivals, and how many bytes copies bring in it.
__device__ __forceinline__ void expect_bytes(uint32 barrier, uint32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Some of the phase's arrivals; what this thread has read or written comes before.
__device__ __forceinline__ void arrive(uint32 barrier, uint32 arrivals = 1) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// One of the phase's arrivals, when all copies by cp.async that this thread has started have arrived.
__device__ __forceinline__ void arrive_after_copies(uint32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Until the phase of this parity is over: the first has parity 0.
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

/// A place in a ring of barriers, and how often it has gone round.
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

/// A tensor map as the driver has encoded it: see runtime/tensor_map.hpp.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

/// The map will be needed soon.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Starts the copy of a box of the tensor from the beginning of dimension 0 and from element y, z, u, v of the others;
/// what is outside the tensor becomes zeros.
__device__ __forceinline__ void copy_box(uint32 dst, const TensorMap& map, int y, int z, int u, int v, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {0, %2, %3, %4, %5}], "
      "[%6];" ::"r"(dst),
      "l"(&map), "r"(y), "r"(z), "r"(u), "r"(v), "r"(barrier)
      : "memory");
}

/// A policy of the L2 for what a copy brings: it lets go of those lines first, for nobody reads them again.
struct EvictFirst {
  uint64 policy;

  __device__ __forceinline__ EvictFirst() {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  }
};

/// The same under that policy.
__device__ __forceinline__ void copy_box(uint32 dst, const TensorMap& map, int y, int z, int u, int v, uint32 barrier,
                                         EvictFirst evict_first) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {0, %2, "
      "%3, %4, %5}], [%6], %7;" ::"r"(dst),
      "l"(&map), "r"(y), "r"(z), "r"(u), "r"(v), "r"(barrier), "l"(evict_first.policy)
      : "memory");
}

/// The same of a tensor of two dimensions, from element x of the first and y of the second.
__device__ __forceinline__ void copy_box(uint32 dst, const TensorMap& map, int x, int y, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          dst),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

/// This thread's accesses to shared memory so far come before copies that are started after this.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// The same of all memory.
__device__ __forceinline__ void fence_async_proxy_everywhere() { asm volatile("fence.proxy.async;" ::: "memory"); }

}  // namespace cubit
