// Parts of a report that both kernels of family sm90 have.
#pragma once

#include "ops/gemm/plan.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gemm::sm90 {

/// Adds all decisions but those on the schedule. `operands`: how words become operands.
void add_decisions(PlanReport& report, const BlockPlan& block, Decision tile, const std::vector<Decision>& operands,
                   Decision warps, Decision stages);

/// Words and activations of stage `i`, which begins at `base`.
void add_stage_regions(PlanReport& report, const BlockPlan& block, int i, int base);
/// Shared memory from `at` to the end of the block's shared memory, if there is any.
void add_rest(PlanReport& report, const BlockPlan& block, const char* name, int at);

}  // namespace cubit::ops::gemm::sm90
