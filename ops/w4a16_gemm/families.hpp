// The kernel families of w4a16_gemm: what the operator asks of a family beyond ops::KernelFamily, and their list.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include <cstddef>

#include "ops/kernel_family.hpp"
#include "ops/w4a16_gemm/plan.hpp"

namespace cubit::ops::w4a16_gemm {

struct ScheduledLaunch;  // ops/w4a16_gemm/launch.hpp

/// A kernel family of the operator.
class GemmFamily : public KernelFamily<W4a16Gemm> {
 public:
  /// The part of plan() that schedules, workspace and the performance model depend on. The rest of plan(), which is the
  /// source and the report, takes most of its time. Requires that why_not() returns nothing. Pure.
  virtual BlockPlan block_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) const = 0;
  /// Whether somebody timed the family's tiles, so that the performance model can choose among them.
  virtual bool is_modelled() const { return true; }
  /// Workspace bytes of exactly this launch; by default those of split-K slices.
  virtual std::size_t launch_workspace(const BlockPlan& block, const ScheduledLaunch& launch,
                                       const runtime::DeviceFacts& device) const;
};

/// Why a family whose tiles have at most 64 rows does not serve a descriptor with more.
BrokenRule rule_of_many_rows(const W4a16Gemm& descriptor);
/// Why a family without dense weights does not serve a descriptor that has them.
BrokenRule rule_of_dense_weights();

/// All families, in the order in which the operator tries them.
const FamilyList<GemmFamily>& families();

/// The chosen family's block plan: see choose_family(). Throws Failure(unsupported) if no family serves the descriptor.
BlockPlan plan_block(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

namespace sm75 {
const GemmFamily& family();
}
namespace sm80 {
const GemmFamily& family();
}
namespace sm90 {
const GemmFamily& family();
}
namespace sm90_persistent {
const GemmFamily& family();
}

}  // namespace cubit::ops::w4a16_gemm
