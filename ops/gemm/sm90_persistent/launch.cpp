// Launches: tensor maps, parameters and the workspace, which stream-K alone needs.
#include "ops/gemm/launch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/argument_checks.hpp"
#include "ops/gemm/boxes.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"
#include "templates/byte_gemm/arguments.h"
#include "templates/kernels/gemm/persistent_gemm_arguments.h"

namespace cubit::ops::gemm::sm90_persistent {
namespace {

/// Whether rows of the output begin and end at multiples of 16 bytes. A tensor map needs such strides. A row that ends
/// elsewhere is not left to the hardware: on an H200, bytes behind outputs with such rows were overwritten.
bool has_output_map(const GemmDescriptor& descriptor, const Problem& problem) {
  const int bytes = descriptor.output_bytes;
  const int columns = output_columns(descriptor, problem.n);
  return columns * bytes % 16 == 0 && map_row_bytes(problem.m, columns, problem.output_stride, bytes) % 16 == 0;
}

/// The map of the activations' boxes.
runtime::TensorMap map_of_activations(const Plan& plan, const Problem& problem) {
  codegen::TileLayout box = plan.block.tiles.activations;
  box.rows = persistent_lanes::box_tokens(box.rows);
  return activation_map(plan.block.descriptor, problem, box);
}

runtime::TensorMap map_of_output(const Plan& plan, const Problem& problem) {
  const int bytes = plan.block.descriptor.output_bytes;
  const int outputs = output_columns(plan.block.descriptor, problem.n);
  return box_map(problem.output, bytes, outputs, problem.m,
                 map_row_bytes(problem.m, outputs, problem.output_stride, bytes), plan.staging);
}

/// Of the tiles that all clusters compute at the same time, these many lie along the rows: then they read the fewest
/// bytes of weights and activations together.
int tile_group(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device) {
  const GemmDescriptor& descriptor = block.descriptor;
  const double weight_bytes = descriptor.tile_n * descriptor.weight_bits / 8.0 / schedule.splits;
  const double ratio = weight_bytes / (descriptor.activation_bits / 8.0 * descriptor.tile_m);
  const auto clusters = static_cast<double>(block.resident_clusters(device.multiprocessors));
  const auto group = static_cast<std::int64_t>(std::lround(std::sqrt(clusters * ratio)));
  return static_cast<int>(std::clamp<std::int64_t>(group, 1, schedule.row_tiles));
}

void share_tiles(PersistentGemmArguments& result, const Schedule& schedule, char* workspace) {
  constexpr int kUnit = persistent_lanes::kUnitSlabs;
  const int clusters = schedule.stream_k_blocks / kClusterBlocks;
  result.units = (schedule.stages + kUnit - 1) / kUnit;
  const std::int64_t units = schedule.stream_k_tiles * result.units;
  result.share = static_cast<int>(units / clusters);
  result.larger = static_cast<int>(units % clusters);
  result.whole_tiles = schedule.tiles() - schedule.stream_k_tiles;
  result.flags = reinterpret_cast<unsigned*>(workspace);
  result.partials = reinterpret_cast<float*>(workspace + kWorkspaceCounterBytes);
}

PersistentGemmArguments parameters_of(const BlockPlan& block, const ScheduledLaunch& launch,
                                      const WeightTensors& weights, char* workspace,
                                      const runtime::DeviceFacts& device) {
  const Problem& problem = launch.problem;
  const Schedule& schedule = launch.schedule;
  PersistentGemmArguments result{};
  result.scales = weights.scales;
  result.qzeros = weights.zeros;
  result.bias = problem.bias;
  result.residual = problem.residual;
  result.residual_stride = 2 * problem.residual_stride;
  if (!has_output_map(block.descriptor, problem)) {
    result.unmapped_output = problem.output;
    result.output_stride = block.descriptor.output_bytes * problem.output_stride;
  }
  result.m = problem.m;
  result.n = problem.n;
  result.groups = groups_of(block.descriptor, problem.k);
  result.slabs = schedule.stages;
  result.token_tiles = static_cast<int>(schedule.row_tiles);
  result.feature_tiles = static_cast<int>(schedule.column_tiles);
  result.tile_group = tile_group(block, schedule, device);
  result.split_slabs = schedule.splits > 1 ? block.first_slice(schedule.stages) : 0;
  result.whole_tiles = schedule.tiles();
  result.constant_weights = problem.constant_weights ? 1 : 0;
  if (schedule.stream_k_blocks > 0) share_tiles(result, schedule, workspace);
  return result;
}

/// The parameters of kernels whose operands are both bytes.
PersistentByteArguments byte_parameters(const PersistentGemmArguments& common, const WeightTensors& weights) {
  PersistentByteArguments result{};
  static_cast<PersistentGemmArguments&>(result) = common;
  static_cast<ByteTensors&>(result) = weights.bytes;
  return result;
}

/// The parameters of kernels with activation order.
PersistentOrderedArguments ordered_parameters(const PersistentGemmArguments& common, const Problem& problem,
                                              const WeightTensors& weights) {
  PersistentOrderedArguments result{};
  static_cast<PersistentGemmArguments&>(result) = common;
  result.groups = weights.groups;
  result.g_idx = static_cast<const unsigned*>(weights.group_of_k);
  result.k = problem.k;
  return result;
}

template <class Parameters>
void set_parameters(Launch& launch, const Parameters& parameters) {
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  launch.parameter_bytes = sizeof parameters;
}

runtime::LaunchShape shape_of(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device) {
  const std::int64_t resident = block.resident_clusters(device.multiprocessors);
  const std::int64_t clusters = schedule.splits > 1            ? schedule.tiles()
                                : schedule.stream_k_blocks > 0 ? resident
                                                               : std::min(schedule.tiles(), resident);
  runtime::LaunchShape shape;
  shape.grid = {static_cast<unsigned>(kClusterBlocks * clusters), 1, 1};
  shape.cluster_blocks = kClusterBlocks;
  shape.threads = static_cast<unsigned>(block.threads);
  shape.dynamic_shared_memory = static_cast<unsigned>(block.shared_memory);
  return shape;
}

}  // namespace

Launch encode_launch(const Plan& plan, const ScheduledLaunch& scheduled, const WeightTensors& weights, void* workspace,
                     const runtime::DeviceFacts& device) {
  const BlockPlan& block = plan.block;
  const PersistentGemmArguments parameters =
      parameters_of(block, scheduled, weights, static_cast<char*>(workspace), device);
  Launch launch;
  launch.shape = shape_of(block, scheduled.schedule, device);
  const Problem& problem = scheduled.problem;
  if (block.row_scaling) {
    set_parameters(launch, byte_parameters(parameters, weights));
  } else if (has_indexed_groups(block.descriptor)) {
    set_parameters(launch, ordered_parameters(parameters, problem, weights));
  } else {
    set_parameters(launch, parameters);
  }
  const runtime::TensorMap activations = map_of_activations(plan, problem);
  add_map(launch, *weights.word_map);
  add_map(launch, activations);
  // A kernel that stores the output without a tensor map still has the parameter.
  add_map(launch, has_output_map(block.descriptor, problem) ? map_of_output(plan, problem) : activations);
  return launch;
}

}  // namespace cubit::ops::gemm::sm90_persistent
