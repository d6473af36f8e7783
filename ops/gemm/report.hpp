// Decisions that the reports of several kernel families have in common. Each function states one decision of the plan,
// its value and its reason.
#pragma once

#include <string>
#include <vector>

#include "ops/gemm/plan.hpp"
#include "ops/gemm/weights.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gemm {

/// The tile of a block whose warps multiply by mma.sync.
Decision mma_sync_tile_decision(const BlockPlan& block);
Decision tile_m_decision(const GemmDescriptor& descriptor);
Decision decomposition_decision(const BlockPlan& block);
Decision merge_decision(const BlockPlan& block, int merged_tiles);

/// The layouts of words and of activations, and `why` they are as they are.
std::vector<Decision> layout_decisions(const StageTiles& tiles, const char* why);

/// Adds a tile and its accesses' proofs for words and activations, and for scales and zeros if a stage has them.
void add_tiles(PlanReport& report, const BlockPlan& block, StageAccesses accesses);

/// One region of shared memory during the main loop.
void add_region(PlanReport& report, std::string name, int offset, int bytes);
/// Scales at `base`, and behind them zeros if the format stores zeros.
void add_scale_regions(PlanReport& report, const BlockPlan& block, const std::string& prefix, int base);
/// Appends decisions.
void add_decisions(PlanReport& report, const std::vector<Decision>& decisions);
/// Adds fragment maps by their names in codegen/fragments.hpp.
void add_fragments(PlanReport& report, const std::vector<const char*>& names);
/// Adds the fragments of the products that mma_shape() makes.
void add_mma_sync_fragments(PlanReport& report, const GemmDescriptor& descriptor,
                            const codegen::Architecture& architecture);

}  // namespace cubit::ops::gemm
