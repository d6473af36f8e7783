// Decisions that the reports of several kernel families have in common. Each function states one decision of the plan,
// its value and its reason.
#pragma once

#include <string>
#include <vector>

#include "ops/operator.hpp"
#include "ops/w4a16_gemm/plan.hpp"

namespace cubit::ops::w4a16_gemm {

/// The tile of a block whose warps multiply by mma.sync.
Decision mma_sync_tile_decision(const BlockPlan& block);
Decision tile_m_decision(const W4a16Gemm& descriptor);
Decision operand_decision(const W4a16Gemm& descriptor);
Decision zero_decision(const W4a16Gemm& descriptor);
/// How loaded words and activations come to meet in a lane's operands, where consumer warps see to that.
Decision word_order_decision(const W4a16Gemm& descriptor);
Decision decomposition_decision(const BlockPlan& block);
Decision merge_decision(const BlockPlan& block, int merged_tiles);

/// The layouts of words and of activations, and `why` they are as they are.
std::vector<Decision> layout_decisions(const StageTiles& tiles, const char* why);

/// Adds a tile and its accesses' proofs for words and activations, and for scales and zeros if a stage has them.
struct StageAccesses {
  std::vector<codegen::TileAccess> words, activations, scales, zeros;
};
void add_tiles(PlanReport& report, const BlockPlan& block, StageAccesses accesses);

/// One region of shared memory during the main loop.
void add_region(PlanReport& report, std::string name, int offset, int bytes);
/// Scales at `base`, and behind them zeros if the format stores zeros.
void add_scale_regions(PlanReport& report, const BlockPlan& block, const std::string& prefix, int base);
/// Adds fragment maps by their names in codegen/fragments.hpp.
void add_fragments(PlanReport& report, const std::vector<const char*>& names);
/// Names of the fragments of mma.sync, and of ldmatrix if words are by n.
std::vector<const char*> mma_sync_fragments(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

}  // namespace cubit::ops::w4a16_gemm
