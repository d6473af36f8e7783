// The workspace of a launch: counters, partial sums of tiles that several blocks share, and reordered activations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/gemm/launch.hpp"
#include "ops/gemm/plan.hpp"

namespace cubit::ops::gemm {

/// Workspace bytes of the partial sums of blocks that share a tile.
std::size_t partial_sum_bytes(const BlockPlan& block, const Schedule& schedule);

/// Bytes of a row of reordered activations, which is made of whole chunks: see BlockPlan::reorders_activations.
std::int64_t reordered_row_bytes(int k);

/// Workspace bytes of exactly this launch.
std::size_t exact_workspace_bytes(const BlockPlan& block, const ScheduledLaunch& launch);

/// The largest of exact_workspace_bytes() of this launch and of all launches with fewer rows, which may share more
/// tiles. A workspace of this size therefore serves every batch up to the given one.
std::size_t workspace_bytes(const BlockPlan& block, const ScheduledLaunch& launch, const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gemm
