// What an operator asks of a kernel family of GEMMs beyond ops::KernelFamily, and rules of several families.
//
// A family of an operator is a small class that states the operator's policy: which descriptors the family serves, and
// which are preferred. Plan, source and report come from the family's folder in ops/gemm/.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "ops/gemm/plan.hpp"
#include "ops/kernel_family.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm {

template <class Descriptor>
class GemmFamily : public KernelFamily<Descriptor> {
 public:
  /// The part of plan() that schedules, workspace and the performance model depend on. The rest of plan(), which is the
  /// source and the report, takes most of its time. Requires that why_not() returns nothing. Pure.
  virtual BlockPlan block_plan(const Descriptor& descriptor, const codegen::Architecture& architecture) const = 0;
  /// Whether somebody timed the family's tiles on such an architecture, so that the performance model can choose among
  /// them.
  virtual bool is_modelled(const codegen::Architecture&) const { return true; }
};

/// Why a family whose tiles have at most 64 rows has no tile of `rows` rows; else nothing.
std::optional<BrokenRule> why_too_many_rows(int rows);

/// Why no kernel adds up sums in the order that the operator's descriptor asks for; else nothing.
template <class Descriptor>
std::optional<BrokenRule> why_no_order(const Descriptor& descriptor) {
  if (!descriptor.atomic_splits || !descriptor.batch_invariant) return std::nullopt;
  return BrokenRule{
      "batch_invariant=true needs sums in one order, and atomic_splits=true lets sums be added in any order",
      "leave one of the two out"};
}

/// Why no block of fewer than 256 columns serves the operator's descriptor; nothing for other blocks.
template <class Descriptor>
std::optional<BrokenRule> why_no_narrow_block(const Descriptor& descriptor) {
  if (descriptor.tile_n >= gemm_lanes::kBlockColumns) return std::nullopt;
  const auto broken = [&](const char* why, const char* remedy) {
    return BrokenRule{fmt::format("tile_n={}: {}", descriptor.tile_n, why), remedy};
  };
  if (descriptor.tile_m > 16)
    return broken("a block reads all activations of its rows, too many for so few columns", "ask for tile_m=8 or 16");
  if (descriptor.atomic_splits)
    return broken("a block adds up its warps' sums in shared memory first, for which there is no atomic kernel",
                  "leave tile_n or atomic_splits out");
  if (descriptor.batch_invariant)
    return broken("into how many parts a block's warps divide k depends on the rows of a tile",
                  "leave tile_n or batch_invariant out");
  if (descriptor.is_gated() && descriptor.tile_n == 32)
    return broken("a strip of 32 columns has no room for gate columns and up-projection columns", "ask for tile_n=64");
  return std::nullopt;
}

}  // namespace cubit::ops::gemm
