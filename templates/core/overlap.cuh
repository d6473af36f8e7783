// Kernels that begin while the one before in the stream ends ("programmatic dependent launch"): where the plan says
// that the architecture has it, and only if the launch asks for it.
//
// PTX ISA: "griddepcontrol".
#pragma once

#include "plan.cuh"

namespace cubit {

/// The next kernel in the stream may be set up while this one runs, if its launch says so.
__device__ __forceinline__ void allow_next_kernel() {
  if constexpr (plan::kOverlaps) asm volatile("griddepcontrol.launch_dependents;");
}

/// Until the kernels before have finished and what they wrote can be read by the whole grid, also by ld.global.nc where
/// the L1 had the line since an earlier kernel: tests/gpu/overlap_test.cpp.
__device__ __forceinline__ void wait_for_previous_kernel() {
  if constexpr (plan::kOverlaps) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace cubit
