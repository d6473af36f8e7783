// Kernel family sm80 of w4a16_gemm: mma.sync, and a ring of stages that cp.async fills.
#pragma once

#include "codegen/architecture.hpp"
#include "ops/operator.hpp"
#include "ops/w4a16_gemm/mma_sync/kernel.hpp"

namespace cubit::ops::w4a16_gemm::sm80 {

struct Plan {
  mma_sync::Kernel kernel;
  /// Tiles of 8 rows and 32 columns whose partial sums are loaded together when split-K slices are merged.
  int merged_tiles = 1;
  PlanReport report;
};

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

}  // namespace cubit::ops::w4a16_gemm::sm80
