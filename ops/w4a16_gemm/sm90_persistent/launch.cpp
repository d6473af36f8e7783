// Launches: tensor maps, parameters and the workspace, which stream-K alone needs.
#include "ops/w4a16_gemm/launch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/kernels/persistent_gemm_arguments.h"

namespace cubit::ops::w4a16_gemm::sm90_persistent {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

constexpr std::size_t kFirstMap = (sizeof(PersistentGemmArguments) + 63) / 64 * 64;

runtime::TensorMap matrix(const void* base, int element_bytes, std::int64_t columns, std::int64_t rows,
                          std::int64_t row_bytes, int box_columns, int box_rows) {
  runtime::TensorMap map;
  map.base = reinterpret_cast<std::uintptr_t>(base);
  map.element_bytes = element_bytes;
  map.rank = 2;
  map.sizes = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  map.strides = {static_cast<std::uint64_t>(row_bytes)};
  map.box = {static_cast<std::uint32_t>(box_columns), static_cast<std::uint32_t>(box_rows)};
  return map;
}

runtime::TensorMap swizzled(runtime::TensorMap map) {
  map.swizzle = static_cast<runtime::TensorSwizzle>(map.row_bytes());
  return map;
}

/// Dense weights are a matrix [n][k]. If gated, its rows are [n / 16] times 8 gate rows and 8 up-projection rows.
runtime::TensorMap map_of_dense_weights(const Plan& plan, const Arguments& arguments) {
  const std::int64_t row_bytes = 2 * row_stride_of_weights(arguments);
  runtime::TensorMap map = swizzled(matrix(arguments.weight, 2, arguments.k, arguments.n, row_bytes,
                                           persistent_lanes::kSlabK, persistent_lanes::kBlockFeatures));
  if (!plan.block.descriptor.is_gated()) return map;
  constexpr int kRows = 8;
  const auto n = static_cast<std::uint64_t>(arguments.n);
  const std::uint64_t row = map.strides[0];
  map.rank = 4;
  map.sizes = {map.sizes[0], kRows, 2, n / (2 * kRows)};
  map.strides = {row, n / 2 * row, kRows * row};
  map.box = {map.box[0], kRows, 2, persistent_lanes::kBlockFeatures / (2 * kRows)};
  return map;
}

/// Words are a matrix [k / 8][n], and words by n a matrix [k][n / 8].
runtime::TensorMap map_of_weights(const Plan& plan, const Arguments& arguments) {
  if (plan.block.descriptor.is_dense()) return map_of_dense_weights(plan, arguments);
  const codegen::TileLayout& words = plan.block.tiles.words;
  const int box_columns = words.part_bytes / 4;
  if (!has_words_by_n(plan.block.descriptor))
    return matrix(arguments.qweight, 4, arguments.n, arguments.k / 8, std::int64_t{4} * arguments.n, box_columns,
                  words.rows);
  return swizzled(matrix(arguments.qweight, 4, arguments.n / 8, arguments.k, arguments.n / 2, box_columns, words.rows));
}

/// A matrix of one row has no stride, but a tensor map needs one.
std::int64_t row_bytes(std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return rows == 1 ? (2 * columns + 15) / 16 * 16 : 2 * stride;
}

runtime::TensorMap map_of_activations(const Plan& plan, const Arguments& arguments) {
  return swizzled(matrix(arguments.activations, 2, arguments.k, arguments.m,
                         row_bytes(arguments.m, arguments.k, arguments.activation_stride), persistent_lanes::kSlabK,
                         plan.block.descriptor.tile_m / kClusterBlocks));
}

runtime::TensorMap map_of_output(const Plan& plan, const Arguments& arguments) {
  const int outputs = output_columns(plan.block.descriptor, arguments.n);
  return swizzled(matrix(arguments.output, 2, outputs, arguments.m,
                         row_bytes(arguments.m, outputs, arguments.output_stride), plan.staging.row_bytes / 2,
                         plan.store_rows));
}

/// Of the tiles that all clusters compute at the same time, these many lie along the rows: then they read the fewest
/// bytes of weights and activations together.
int tile_group(const BlockPlan& block, const Schedule& schedule, const runtime::DeviceFacts& device) {
  const W4a16Gemm& descriptor = block.descriptor;
  const double weight_bytes = descriptor.tile_n * weight_bits(descriptor) / 8.0 / schedule.splits;
  const double ratio = weight_bytes / (2.0 * descriptor.tile_m);
  const auto clusters = static_cast<double>(block.resident_clusters(device.multiprocessors));
  const auto group = static_cast<std::int64_t>(std::lround(std::sqrt(clusters * ratio)));
  return static_cast<int>(std::clamp<std::int64_t>(group, 1, schedule.row_tiles));
}

/// Partial sums of stream-K: all outputs of a block, for each block.
std::size_t partial_bytes(const BlockPlan& block, const Schedule& schedule) {
  const std::size_t block_bytes = sizeof(float) * persistent_lanes::kBlockFeatures * block.descriptor.tile_m;
  return workspace_part(static_cast<std::size_t>(schedule.stream_k_blocks) * block_bytes);
}

std::size_t bytes_of(const BlockPlan& block, const Schedule& schedule) {
  return schedule.stream_k_blocks == 0 ? 0 : kWorkspaceCounterBytes + partial_bytes(block, schedule);
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

PersistentGemmArguments parameters_of(const BlockPlan& block, const ScheduledLaunch& launch, char* workspace,
                                      const runtime::DeviceFacts& device) {
  const Arguments& arguments = launch.arguments;
  const Schedule& schedule = launch.schedule;
  PersistentGemmArguments result{};
  result.scales = arguments.scales;
  result.qzeros = arguments.qzeros;
  result.bias = arguments.bias;
  result.residual = arguments.residual;
  result.residual_stride = 2 * arguments.residual_stride;
  result.m = arguments.m;
  result.n = arguments.n;
  result.groups = groups_of(block.descriptor, arguments.k);
  result.slabs = schedule.stages;
  result.token_tiles = static_cast<int>(schedule.row_tiles);
  result.feature_tiles = static_cast<int>(schedule.column_tiles);
  result.tile_group = tile_group(block, schedule, device);
  result.split_slabs = schedule.splits > 1 ? block.first_slice(schedule.stages) : 0;
  result.whole_tiles = schedule.tiles();
  if (schedule.stream_k_blocks > 0) share_tiles(result, schedule, workspace);
  return result;
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

void check_arguments(const BlockPlan& block, const Arguments& arguments) {
  check_tensors(block, arguments);
  require_argument(
      has_row_stride(arguments), "activation_stride",
      block.descriptor.is_dense()
          ? "dense weights and rows are read by tensor maps, whose strides must be multiples of 8 from 8 on"
          : "family sm90_persistent reads rows by a tensor map, whose stride must be a multiple of 8 from 8 "
            "on (any stride: tile_m=64, tile_n=256 and family=sm80)",
      arguments.activation_stride);
}

}  // namespace

std::size_t launch_workspace(const BlockPlan& block, const ScheduledLaunch& launch,
                             const runtime::DeviceFacts& device) {
  const int decomposition = launch.arguments.decomposition;
  if (decomposition != CUBIT_W4A16_AUTOMATIC && decomposition != CUBIT_W4A16_STREAM_K) return 0;
  const std::optional<Schedule> shared = shared_schedule(block, launch.arguments, device);
  return shared ? bytes_of(block, *shared) : 0;
}

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device) {
  return launch_workspace(plan.block, schedule_launch(plan.block, public_arguments, device), device);
}

Launch encode_launch(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
                     const runtime::DeviceFacts& device) {
  const BlockPlan& block = plan.block;
  const ScheduledLaunch scheduled = schedule_launch(block, public_arguments, device);
  if (scheduled.is_empty()) return empty_launch();
  check_arguments(block, scheduled.arguments);
  require_workspace(workspace, given, bytes_of(block, scheduled.schedule));
  const PersistentGemmArguments parameters = parameters_of(block, scheduled, static_cast<char*>(workspace), device);
  Launch launch;
  launch.shape = shape_of(block, scheduled.schedule, device);
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  const runtime::TensorMap maps[] = {map_of_weights(plan, scheduled.arguments),
                                     map_of_activations(plan, scheduled.arguments),
                                     map_of_output(plan, scheduled.arguments)};
  launch.parameter_bytes = kFirstMap;
  for (const runtime::TensorMap& map : maps) {
    launch.maps.add(launch.parameter_bytes, map);
    launch.parameter_bytes += sizeof(runtime::EncodedTensorMap);
  }
  return launch;
}

}  // namespace cubit::ops::w4a16_gemm::sm90_persistent
