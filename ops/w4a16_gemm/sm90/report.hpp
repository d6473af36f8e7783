// Parts of a report that both kernels of family sm90 have.
#pragma once

#include "ops/operator.hpp"
#include "ops/w4a16_gemm/plan.hpp"

namespace cubit::ops::w4a16_gemm::sm90 {

Decision copy_decision();
Decision block_decision(const BlockPlan& block);
const char* why_box_layouts(const StageTiles& tiles);

/// Words and activations of stage `i`, which begins at `base`.
void add_stage_regions(PlanReport& report, const BlockPlan& block, int i, int base);
/// Shared memory from `at` to the end of the block's shared memory, if there is any.
void add_rest(PlanReport& report, const BlockPlan& block, const char* name, int at);

}  // namespace cubit::ops::w4a16_gemm::sm90
