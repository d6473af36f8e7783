// From public arguments to schedule, workspace, grid and the kernel's parameters. Makes no device call and allocates
// nothing.
#include "ops/w4a16_gemm/launch.hpp"

#include <algorithm>
#include <cstring>

#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

/// Blocks of the same columns are neighbours in the grid, because such blocks read the same weights at about the same
/// time. The slices of a cluster are neighbours along x.
runtime::LaunchShape shape_of(const BlockPlan& block, const Schedule& schedule) {
  const auto rows = static_cast<unsigned>(schedule.row_tiles);
  const auto columns = static_cast<unsigned>(schedule.column_tiles);
  const auto splits = static_cast<unsigned>(schedule.splits);
  runtime::LaunchShape shape;
  shape.grid = {rows, columns, splits};
  if (schedule.clustered) {
    shape.grid = {splits, columns, rows};
    shape.cluster_blocks = 2;
  }
  if (schedule.stream_k_blocks > 0) shape.grid = {static_cast<unsigned>(schedule.stream_k_blocks), 1, 1};
  if (schedule.fixed_order_blocks > 0) shape.grid = {static_cast<unsigned>(schedule.fixed_order_blocks), 1, 1};
  shape.threads = static_cast<unsigned>(block.threads);
  shape.dynamic_shared_memory = static_cast<unsigned>(block.shared_memory);
  return shape;
}

}  // namespace

ScheduledLaunch schedule_launch(const BlockPlan& block, const void* public_arguments,
                                const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_w4a16_gemm_arguments");
  check_sizes(block.descriptor, arguments.m, arguments.n, arguments.k);
  return {arguments, choose_schedule(block, arguments, device)};
}

Launch empty_launch() {
  Launch launch;
  launch.empty = true;
  return launch;
}

std::size_t partial_sum_bytes(const BlockPlan& block, const Schedule& schedule) {
  if (schedule.splits == 1) return 0;
  const std::size_t tile_bytes = sizeof(float) * block.descriptor.tile_n * block.descriptor.tile_m;
  const std::int64_t places = schedule.fixed_order_blocks > 0
                                  ? schedule.fixed_order_blocks
                                  : schedule.tiles() * (schedule.atomic ? 1 : schedule.splits);
  return workspace_part(static_cast<std::size_t>(places) * tile_bytes);
}

std::size_t split_workspace_bytes(const BlockPlan& block, const Schedule& schedule) {
  return schedule.splits == 1 ? 0 : kWorkspaceCounterBytes + partial_sum_bytes(block, schedule);
}

std::size_t largest_split_workspace_bytes(const BlockPlan& block, const ScheduledLaunch& launch,
                                          const runtime::DeviceFacts& device) {
  std::size_t most = split_workspace_bytes(block, launch.schedule);
  if (launch.is_empty()) return most;
  // The schedule depends on the rows through the number of row tiles alone. Beyond `counted` row tiles the counters do
  // not suffice for slices that blocks share. A batch-invariant launch then has one place per block, and never fewer
  // places for more rows.
  const std::int64_t counted = block.merge_counters / block.counters_per_tile / launch.schedule.column_tiles;
  const std::int64_t most_tiles = std::min(launch.schedule.row_tiles - 1, counted);
  Arguments fewer = launch.arguments;
  for (std::int64_t tiles = 1; tiles <= most_tiles; ++tiles) {
    fewer.m = static_cast<std::int32_t>(tiles * block.descriptor.tile_m);
    most = std::max(most, split_workspace_bytes(block, choose_schedule(block, fewer, device)));
  }
  return most;
}

W4a16GemmArguments kernel_parameters(const ScheduledLaunch& launch, char* workspace) {
  const Arguments& arguments = launch.arguments;
  const Schedule& schedule = launch.schedule;
  W4a16GemmArguments result{};
  result.activations = arguments.activations;
  result.qweight = arguments.qweight;
  result.qzeros = arguments.qzeros;
  result.scales = arguments.scales;
  result.g_idx = reinterpret_cast<const unsigned*>(arguments.g_idx);
  result.bias = arguments.bias;
  result.residual = arguments.residual;
  result.output = arguments.output;
  if (schedule.splits > 1) {
    result.counters = reinterpret_cast<unsigned*>(workspace);
    result.partial = reinterpret_cast<float*>(workspace + kWorkspaceCounterBytes);
  }
  result.activation_stride = 2 * arguments.activation_stride;
  result.residual_stride = 2 * arguments.residual_stride;
  result.output_stride = 2 * arguments.output_stride;
  result.m = arguments.m;
  result.n = arguments.n;
  result.k = arguments.k;
  result.stages = schedule.stages;
  result.splits = schedule.splits;
  result.split_stages = schedule.stages / schedule.splits;
  result.row_tiles = static_cast<int>(schedule.row_tiles);
  result.clustered = schedule.clustered ? 1 : 0;
  result.adds_atomically = schedule.atomic ? 1 : 0;
  if (schedule.fixed_order_blocks > 0) result.whole_tiles = schedule.tiles();
  if (schedule.stream_k_blocks == 0) return result;
  const std::int64_t total = schedule.tiles() * schedule.stages;
  result.share = static_cast<int>(total / schedule.stream_k_blocks);
  result.larger = static_cast<int>(total % schedule.stream_k_blocks);
  return result;
}

Launch make_launch(const BlockPlan& block, const Schedule& schedule, const W4a16GemmArguments& parameters,
                   const runtime::DeviceFacts& device) {
  Launch launch;
  launch.shape = shape_of(block, schedule);
  static_assert(kMapsAt + kMostMaps * sizeof(runtime::EncodedTensorMap) <= sizeof launch.parameters);
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  launch.spread_blocks(block.blocks_per_sm, device);
  return launch;
}

}  // namespace cubit::ops::w4a16_gemm
