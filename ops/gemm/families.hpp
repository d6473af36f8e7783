// What an operator asks of a kernel family of GEMMs beyond ops::KernelFamily, and rules of several families.
//
// A family of an operator is a small class that states the operator's policy: which descriptors the family serves, and
// which are preferred. Plan, source and report come from the family's folder in ops/gemm/.
#pragma once

#include <optional>

#include "ops/gemm/plan.hpp"
#include "ops/kernel_family.hpp"

namespace cubit::ops::gemm {

template <class Descriptor>
class GemmFamily : public KernelFamily<Descriptor> {
 public:
  /// The part of plan() that schedules, workspace and the performance model depend on. The rest of plan(), which is the
  /// source and the report, takes most of its time. Requires that why_not() returns nothing. Pure.
  virtual BlockPlan block_plan(const Descriptor& descriptor, const codegen::Architecture& architecture) const = 0;
  /// Whether somebody timed the family's tiles, so that the performance model can choose among them.
  virtual bool is_modelled() const { return true; }
};

/// Why a family whose tiles have at most 64 rows does not serve a descriptor with more; else nothing.
std::optional<BrokenRule> why_too_many_rows(const GemmDescriptor& descriptor);

}  // namespace cubit::ops::gemm
