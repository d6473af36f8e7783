// From a problem to schedule, workspace, grid and the kernel's parameters. Makes no device call and allocates
// nothing.
#include "ops/gemm/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/argument_checks.hpp"

namespace cubit::ops::gemm {
namespace {

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

int groups_of(const BlockPlan& block, const Problem& problem) {
  return problem.groups > 0 ? problem.groups : groups_of(block.descriptor, problem.k);
}

bool has_few_groups(const BlockPlan& block, const Problem& problem) {
  return block.most_groups == 0 || groups_of(block, problem) <= block.most_groups;
}

}  // namespace

ScheduledLaunch schedule_launch(const BlockPlan& block, const Problem& problem, const runtime::DeviceFacts& device) {
  check_sizes(block.descriptor, problem.m, problem.n, problem.k);
  if (!has_few_groups(block, problem)) {
    const std::string rule = fmt::format(
        "a block keeps the scales and zeros of all groups in shared memory, which has room for {} groups; tile_m=8, 16 "
        "and 32 and family=sm80 take any number",
        block.most_groups);
    require_argument(false, "groups", rule.c_str(), groups_of(block, problem));
  }
  return {problem, choose_schedule(block, problem, device)};
}

bool serves_sizes(const BlockPlan& block, const Problem& problem) {
  return problem.n <= most_columns(block.descriptor) && has_few_groups(block, problem) &&
         (!block.needs_row_stride || has_row_stride(problem));
}

bool has_row_stride(const Problem& problem) { return problem.activation_stride > 0 || problem.m <= 1; }

void require_row_stride(const BlockPlan& block, const Problem& problem) {
  require_argument(!block.needs_row_stride || has_row_stride(problem), "activation_stride", block.stride_rule,
                   problem.activation_stride);
}

Launch empty_launch() {
  Launch launch;
  launch.empty = true;
  return launch;
}

PackedGemmArguments kernel_parameters(const BlockPlan& block, const ScheduledLaunch& launch,
                                      const WeightTensors& weights, char* workspace) {
  const Problem& problem = launch.problem;
  const int activation_bytes = block.descriptor.activation_bits / 8;
  const Schedule& schedule = launch.schedule;
  PackedGemmArguments result{};
  result.activations = problem.activations;
  result.weights = weights.words;
  result.qzeros = weights.zeros;
  result.scales = weights.scales;
  result.g_idx = static_cast<const unsigned*>(weights.group_of_k);
  result.groups = weights.groups;
  result.bias = problem.bias;
  result.residual = problem.residual;
  result.output = problem.output;
  if (schedule.splits > 1) {
    result.counters = reinterpret_cast<unsigned*>(workspace);
    result.partial = reinterpret_cast<float*>(workspace + kWorkspaceCounterBytes);
  }
  result.activation_stride = activation_bytes * problem.activation_stride;
  result.residual_stride = 2 * problem.residual_stride;
  result.output_stride = block.descriptor.output_bytes * problem.output_stride;
  result.m = problem.m;
  result.n = problem.n;
  result.k = problem.k;
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

FusedGemmArguments fused_parameters(const BlockPlan& block, const Problem& problem, const PackedGemmArguments& common,
                                    const WeightTensors& weights) {
  FusedGemmArguments result{};
  static_cast<PackedGemmArguments&>(result) = common;
  int column = problem.layer_columns(0);
  for (int layer = 1; layer < kMostLayers; ++layer) {
    const LayerTensors& tensors = weights.more[layer - 1];
    result.more[layer - 1] = {.weights = tensors.words,
                              .scales = tensors.scales,
                              .qzeros = tensors.zeros,
                              .bias = tensors.bias,
                              .first_column = column,
                              .first_tile = static_cast<int>(column_tiles(block, problem, layer))};
    column += problem.layer_columns(layer);
  }
  return result;
}

ByteGemmArguments byte_parameters(const GemmArguments& common, const WeightTensors& weights) {
  ByteGemmArguments result{};
  static_cast<GemmArguments&>(result) = common;
  static_cast<ByteTensors&>(result) = weights.bytes;
  return result;
}

Launch make_launch(const BlockPlan& block, const Schedule& schedule, std::span<const std::byte> parameters,
                   const runtime::DeviceFacts& device) {
  Launch launch;
  launch.shape = shape_of(block, schedule);
  launch.parameter_bytes = parameters.size();
  std::memcpy(launch.parameters.data(), parameters.data(), parameters.size());
  launch.spread_blocks(block.blocks_per_sm, device);
  return launch;
}

Launch make_launch(const BlockPlan& block, const Schedule& schedule, const PackedGemmArguments& parameters,
                   const runtime::DeviceFacts& device) {
  constexpr std::size_t kMapsAt = runtime::map_offset(sizeof parameters);
  static_assert(kMapsAt + MapParameters::kCapacity * sizeof(runtime::EncodedTensorMap) <= sizeof Launch::parameters);
  return make_launch(block, schedule, std::as_bytes(std::span(&parameters, 1)), device);
}

}  // namespace cubit::ops::gemm
