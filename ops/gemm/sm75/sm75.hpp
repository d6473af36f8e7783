// Kernel family sm75 of GEMMs: mma.sync without cp.async. The next stage waits in registers while the block
// multiplies the current stage, and is stored to shared memory afterwards.
#pragma once

#include "codegen/architecture.hpp"
#include "ops/gemm/families.hpp"
#include "ops/gemm/mma_sync/kernel.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gemm::sm75 {

struct Plan : mma_sync::Kernel {
  int held_registers = 0;  ///< registers per thread in which the next stage waits
};

/// Bytes of spill stores and loads that a kernel with 64 rows may have on a device with cp.async. Other kernels spill
/// nothing.
inline constexpr int kMostSpilledBytes = 96;

/// Why the family has no such tile; else nothing.
std::optional<BrokenRule> why_no_tile(const Tile& tile);
/// The instruction that the architecture lacks, or nothing.
std::optional<std::string> why_not(const codegen::Architecture& architecture);

Plan make_plan(const GemmDescriptor& descriptor, mma_sync::Weights weights, const codegen::Architecture& architecture);

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture);

/// Adds the plan's decisions, proofs and fragments to a report, which names the family already. `operands`: how words
/// become operands.
void write_report(PlanReport& report, const Plan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture);

}  // namespace cubit::ops::gemm::sm75
