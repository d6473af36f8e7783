// What sm_90 brought: bulk copies from global to shared memory, the transaction barriers that say when they have arrived,
// and kernels that begin while others end.
//
// PTX ISA: "cp.async.bulk", "mbarrier", "Asynchronous proxy", "griddepcontrol".
#pragma once

#include "types.cuh"

namespace cubit {

/// The next kernel in the stream may be set up while this one runs, if its launch says so.
__device__ __forceinline__ void allow_next_kernel() { asm volatile("griddepcontrol.launch_dependents;"); }
/// Until the kernels before have finished and what they wrote can be read.
__device__ __forceinline__ void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/// One thread makes the barrier, for one arrival per phase; the fence shows it to the asynchronous proxy.
__device__ __forceinline__ void init_barrier(uint32 barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// The phase's one arrival, and how many bytes its copies bring.
__device__ __forceinline__ void expect_bytes(uint32 barrier, uint32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
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

/// Starts a copy; addresses and size are multiples of 16 bytes.
__device__ __forceinline__ void copy_bulk(uint32 dst, const void* src, uint32 bytes, uint32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
               "l"(src), "r"(bytes), "r"(barrier)
               : "memory");
}

}  // namespace cubit
