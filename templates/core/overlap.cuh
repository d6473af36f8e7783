// Programmatic dependent launch: a kernel begins while its predecessor in the stream is still finishing.
//
// The functions compile to nothing unless the plan says that the architecture supports the feature, and they have an
// effect only if the launch asks for the overlap.
//
// PTX ISA: "griddepcontrol".
#pragma once

#include "plan.cuh"

namespace cubit {

/// Allows the next kernel in the stream to be set up while this kernel runs, provided that kernel's launch asks for
/// overlap.
__device__ __forceinline__ void allow_next_kernel() {
  if constexpr (plan::kOverlaps) asm volatile("griddepcontrol.launch_dependents;");
}

/// Waits until all preceding kernels have finished. After the wait the whole grid can read what these kernels wrote,
/// also with ld.global.nc when the L1 still holds the line from an earlier kernel; tests/gpu/overlap_test.cpp checks
/// this.
__device__ __forceinline__ void wait_for_previous_kernel() {
  if constexpr (plan::kOverlaps) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace cubit
