// Kernel family sm80 of GEMMs: mma.sync, and a ring of stages that cp.async fills.
#pragma once

#include "codegen/architecture.hpp"
#include "ops/gemm/families.hpp"
#include "ops/gemm/mma_sync/kernel.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gemm::sm80 {

struct Plan : mma_sync::Kernel {
  /// Tiles of 8 rows and 32 columns whose partial sums are loaded together when split-K slices are merged.
  int merged_tiles = 1;
};

/// Why the family has no such tile; else nothing.
std::optional<BrokenRule> why_no_tile(const Tile& tile);
/// The instruction that the architecture lacks, or nothing.
std::optional<std::string> why_not(int activation_bits, codegen::MmaType product_type,
                                   const codegen::Architecture& architecture);

Plan make_plan(const GemmDescriptor& descriptor, mma_sync::Weights weights, const codegen::Architecture& architecture);

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// Adds the plan's decisions, proofs and fragments to a report, which names the family already. `operands`: how words
/// become operands.
void write_report(PlanReport& report, const Plan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture);

}  // namespace cubit::ops::gemm::sm80
