// The sizes of a launch's workspace. A launch that needs one has the counters first.
#include "ops/gemm/workspace.hpp"

#include <algorithm>
#include <optional>

#include "ops/argument_checks.hpp"
#include "ops/gemm/schedule.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm {
namespace {

/// Places for the partial sums of one block each. The two blocks of a persistent cluster that split k add up their sums
/// in distributed shared memory.
std::int64_t partial_sum_places(const BlockPlan& block, const Schedule& schedule) {
  if (block.is_persistent) return schedule.stream_k_blocks;
  if (schedule.splits == 1) return 0;
  if (schedule.fixed_order_blocks > 0) return schedule.fixed_order_blocks;
  return schedule.tiles() * (schedule.atomic ? 1 : schedule.splits);
}

/// Counters and partial sums: 0 where no tile is shared.
std::size_t shared_tile_bytes(const BlockPlan& block, const Schedule& schedule) {
  const std::size_t sums = partial_sum_bytes(block, schedule);
  return sums == 0 ? 0 : kWorkspaceCounterBytes + sums;
}

/// The largest of shared_tile_bytes() of this launch and of all launches with fewer rows. Where a launch of persistent
/// clusters does not share tiles, a launch with fewer rows may, if this one can.
std::size_t largest_shared_tile_bytes(const BlockPlan& block, const ScheduledLaunch& launch,
                                      const runtime::DeviceFacts& device) {
  if (block.is_persistent) {
    const Decomposition decomposition = launch.problem.decomposition;
    if (decomposition != Decomposition::automatic && decomposition != Decomposition::stream_k) return 0;
    const std::optional<Schedule> shared = shared_schedule(block, launch.problem, device);
    return shared ? shared_tile_bytes(block, *shared) : 0;
  }
  std::size_t most = shared_tile_bytes(block, launch.schedule);
  if (launch.is_empty()) return most;
  // The schedule depends on the rows through the number of row tiles alone. Beyond `counted` row tiles the counters do
  // not suffice for slices that blocks share. A batch-invariant launch then has one place per block, and never fewer
  // places for more rows.
  const std::int64_t counted = block.merge_counters / block.counters_per_tile / launch.schedule.column_tiles;
  const std::int64_t most_tiles = std::min(launch.schedule.row_tiles - 1, counted);
  Problem fewer = launch.problem;
  for (std::int64_t tiles = 1; tiles <= most_tiles; ++tiles) {
    fewer.m = static_cast<int>(tiles * block.descriptor.tile_m);
    most = std::max(most, shared_tile_bytes(block, choose_schedule(block, fewer, device)));
  }
  return most;
}

/// Reordered activations lie behind counters and partial sums.
std::size_t with_reordered_activations(const BlockPlan& block, const ScheduledLaunch& launch, std::size_t bytes) {
  if (!block.reorders_activations || launch.is_empty()) return bytes;
  const std::int64_t reordered = launch.problem.m * reordered_row_bytes(launch.problem.k);
  return std::max<std::size_t>(bytes, kWorkspaceCounterBytes) + workspace_part(static_cast<std::size_t>(reordered));
}

}  // namespace

std::size_t partial_sum_bytes(const BlockPlan& block, const Schedule& schedule) {
  const GemmDescriptor& descriptor = block.descriptor;
  const int columns = block.is_persistent ? descriptor.tile_n / 2 : descriptor.tile_n;
  const std::size_t block_bytes = std::size_t{1} * descriptor.sum_bytes * columns * descriptor.tile_m;
  return workspace_part(static_cast<std::size_t>(partial_sum_places(block, schedule)) * block_bytes);
}

std::int64_t reordered_row_bytes(int k) {
  return std::int64_t{2} * gemm_lanes::kChunkK * ((k + gemm_lanes::kChunkK - 1) / gemm_lanes::kChunkK);
}

std::size_t exact_workspace_bytes(const BlockPlan& block, const ScheduledLaunch& launch) {
  return with_reordered_activations(block, launch, shared_tile_bytes(block, launch.schedule));
}

std::size_t workspace_bytes(const BlockPlan& block, const ScheduledLaunch& launch, const runtime::DeviceFacts& device) {
  return with_reordered_activations(block, launch, largest_shared_tile_bytes(block, launch, device));
}

}  // namespace cubit::ops::gemm
