// Kernel family sm75 of w4a16_gemm: mma.sync without cp.async. The next stage waits in registers while the block
// multiplies the current stage, and is stored to shared memory afterwards.
#pragma once

#include "codegen/architecture.hpp"
#include "ops/operator.hpp"
#include "ops/w4a16_gemm/mma_sync/kernel.hpp"

namespace cubit::ops::w4a16_gemm::sm75 {

struct Plan {
  mma_sync::Kernel kernel;
  int held_registers = 0;  ///< registers per thread in which the next stage waits
  PlanReport report;
};

/// Bytes of spill stores and loads that a kernel with 64 rows may have on a device with cp.async. Other kernels spill
/// nothing.
inline constexpr int kMostSpilledBytes = 96;

Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

/// Adds the plan's decisions, proofs and fragments to its report, which names the family already.
void write_report(Plan& plan, const codegen::Architecture& architecture);

inline std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device) {
  return mma_sync::workspace_bytes(plan.kernel, public_arguments, device);
}
inline Launch encode_launch(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
                            const runtime::DeviceFacts& device) {
  return mma_sync::encode_launch(plan.kernel, public_arguments, workspace, given, device);
}

}  // namespace cubit::ops::w4a16_gemm::sm75
