// Launches of family sm90: tensor maps, and the slices of reordered activations.
#include "ops/gemm/launch.hpp"

#include <algorithm>

#include "ops/argument_checks.hpp"
#include "ops/gemm/boxes.hpp"
#include "ops/gemm/sm90/sm90.hpp"
#include "ops/gemm/workspace.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm::sm90 {
namespace {

/// Divides the activations into slices, each of which one block reorders: at most one slice for each block that is
/// resident at the same time, for each chunk, and for each counter.
void add_slices(PackedGemmArguments& parameters, const BlockPlan& block, const ScheduledLaunch& launch,
                const runtime::DeviceFacts& device, char* workspace) {
  const std::int64_t most_slices = kWorkspaceCounters - block.merge_counters - 2;
  const Schedule& schedule = launch.schedule;
  const std::int64_t blocks =
      schedule.stream_k_blocks > 0 ? schedule.stream_k_blocks : schedule.tiles() * schedule.splits;
  const std::int64_t resident = block.resident_blocks(device.multiprocessors);
  const std::int64_t row_bytes = reordered_row_bytes(launch.problem.k);
  // As many chunks as fit a workspace are fewer than 2^31.
  const std::int64_t chunks = row_bytes / (2 * gemm_lanes::kChunkK) * schedule.row_tiles;
  const std::int64_t slices = std::min({most_slices, blocks, resident, chunks});
  parameters.slices = static_cast<int>(slices);
  parameters.slice_chunks = static_cast<int>(chunks / slices);
  parameters.larger_slices = static_cast<int>(chunks % slices);
  parameters.slice_states = reinterpret_cast<unsigned*>(workspace) + block.merge_counters;
  parameters.reordered = workspace + kWorkspaceCounterBytes + partial_sum_bytes(block, schedule);
  parameters.reordered_stride = row_bytes;
}

void add_maps(Launch& launch, const BlockPlan& block, const Problem& problem, const WeightTensors& weights) {
  add_map(launch, *weights.word_map);
  add_map(launch, activation_map(block.descriptor, problem, block.tiles.activations));
  if (weights.scale_map) add_map(launch, *weights.scale_map);
}

}  // namespace

Launch encode_launch(const WidePlan& plan, const ScheduledLaunch& scheduled, const WeightTensors& weights,
                     void* workspace, const runtime::DeviceFacts& device) {
  const BlockPlan& block = plan.block;
  auto* const base = static_cast<char*>(workspace);
  PackedGemmArguments parameters = kernel_parameters(block, scheduled, weights, base);
  if (block.reorders_activations) add_slices(parameters, block, scheduled, device, base);
  Launch launch = make_launch(block, scheduled.schedule, parameters, device);
  add_maps(launch, block, scheduled.problem, weights);
  if (!block.reorders_activations) return launch;
  const std::int64_t row_bytes = parameters.reordered_stride;
  add_map(launch,
          box_map(parameters.reordered, 2, row_bytes / 2, scheduled.problem.m, row_bytes, block.tiles.activations));
  return launch;
}

Launch encode_launch(const NarrowPlan& plan, const ScheduledLaunch& scheduled, const WeightTensors& weights,
                     void* workspace, const runtime::DeviceFacts& device) {
  const BlockPlan& block = plan.block;
  const PackedGemmArguments parameters = kernel_parameters(block, scheduled, weights, static_cast<char*>(workspace));
  Launch launch = make_launch(block, scheduled.schedule, parameters, device);
  add_maps(launch, block, scheduled.problem, weights);
  return launch;
}

}  // namespace cubit::ops::gemm::sm90
