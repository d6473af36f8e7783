// Launches of family sm90: tensor maps, and the workspace of reordered activations.
#include "ops/w4a16_gemm/launch.hpp"

#include <algorithm>

#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/sm90/sm90.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm::sm90 {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

int chunks_of(int k) { return (k + gemm_lanes::kChunkK - 1) / gemm_lanes::kChunkK; }

/// Reordered rows of activations are whole chunks.
std::int64_t reordered_row_bytes(int k) { return std::int64_t{2} * gemm_lanes::kChunkK * chunks_of(k); }

/// The workspace holds counters and partial sums of split-K slices in `split` bytes, and reordered activations.
std::size_t workspace_bytes(const BlockPlan& block, const ScheduledLaunch& launch, std::size_t split) {
  if (!reorders_activations(block.descriptor) || launch.is_empty()) return split;
  const std::int64_t reordered = launch.arguments.m * reordered_row_bytes(launch.arguments.k);
  return std::max<std::size_t>(split, kWorkspaceCounterBytes) + workspace_part(static_cast<std::size_t>(reordered));
}

/// Divides the activations into slices, each of which one block reorders: at most one slice for each block that is
/// resident at the same time, for each chunk, and for each counter.
void add_slices(W4a16GemmArguments& parameters, const BlockPlan& block, const ScheduledLaunch& launch,
                const runtime::DeviceFacts& device, char* workspace) {
  const std::int64_t most_slices = kWorkspaceCounters - block.merge_counters - 2;
  const Schedule& schedule = launch.schedule;
  const std::int64_t blocks =
      schedule.stream_k_blocks > 0 ? schedule.stream_k_blocks : schedule.tiles() * schedule.splits;
  const std::int64_t resident = block.resident_blocks(device.multiprocessors);
  // As many chunks as fit a workspace are fewer than 2^31.
  const std::int64_t chunks = chunks_of(launch.arguments.k) * schedule.row_tiles;
  const std::int64_t slices = std::min({most_slices, blocks, resident, chunks});
  parameters.slices = static_cast<int>(slices);
  parameters.slice_chunks = static_cast<int>(chunks / slices);
  parameters.larger_slices = static_cast<int>(chunks % slices);
  parameters.slice_states = reinterpret_cast<unsigned*>(workspace) + block.merge_counters;
  parameters.reordered = workspace + kWorkspaceCounterBytes + partial_sum_bytes(block, schedule);
  parameters.reordered_stride = reordered_row_bytes(launch.arguments.k);
}

/// A tensor map swizzles the rows of a box by chunks of 16 bytes within 16, 32, 64 or 128 bytes.
runtime::TensorSwizzle swizzle_of(const codegen::TileLayout& layout) {
  using runtime::TensorSwizzle;
  constexpr TensorSwizzle kOfBits[] = {TensorSwizzle::none, TensorSwizzle::span32, TensorSwizzle::span64,
                                       TensorSwizzle::span128};
  return kOfBits[layout.swizzle.bits];
}

/// A matrix of `columns` x `rows` elements, copied in boxes.
runtime::TensorMap map_of(const void* base, int element_bytes, std::int64_t columns, std::int64_t rows,
                          std::int64_t row_bytes, const codegen::TileLayout& layout) {
  runtime::TensorMap map;
  map.base = reinterpret_cast<std::uintptr_t>(base);
  map.element_bytes = element_bytes;
  map.rank = 2;
  map.sizes = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  map.strides = {static_cast<std::uint64_t>(row_bytes)};
  map.box = {static_cast<std::uint32_t>(layout.part_bytes / element_bytes), static_cast<std::uint32_t>(layout.rows)};
  map.swizzle = swizzle_of(layout);
  return map;
}

/// Words are a matrix [k / 8, n], and words by n a matrix [k, n / 8].
runtime::TensorMap map_of_words(const BlockPlan& block, const Arguments& arguments) {
  const std::int64_t n = arguments.n;
  const std::int64_t k = arguments.k;
  const codegen::TileLayout& words = block.tiles.words;
  if (!has_words_by_n(block.descriptor)) return map_of(arguments.qweight, 4, n, k / 8, 4 * n, words);
  runtime::TensorMap map = map_of(arguments.qweight, 4, n / 8, k, n / 2, words);
  // A narrow block's part of a row is less than a cache line. Its neighbours read the rest at about the same time.
  if (is_narrow(block.descriptor)) map.l2_bytes = 128;
  return map;
}

/// A matrix of one row has no stride, but a tensor map needs one.
runtime::TensorMap map_of_activations(const BlockPlan& block, const Arguments& arguments) {
  const std::int64_t k = arguments.k;
  const std::int64_t row_bytes = arguments.m == 1 ? (2 * k + 15) / 16 * 16 : 2 * arguments.activation_stride;
  return map_of(arguments.activations, 2, k, arguments.m, row_bytes, block.tiles.activations);
}

void add_map(Launch& launch, const runtime::TensorMap& map) {
  launch.maps.add(kMapsAt + launch.maps.all().size() * sizeof(runtime::EncodedTensorMap), map);
  launch.parameter_bytes = kMapsAt + launch.maps.all().size() * sizeof(runtime::EncodedTensorMap);
}

void add_maps(Launch& launch, const BlockPlan& block, const Arguments& arguments) {
  const std::int64_t n = arguments.n;
  add_map(launch, map_of_words(block, arguments));
  add_map(launch, map_of_activations(block, arguments));
  add_map(launch, map_of(arguments.scales, 2, n, groups_of(block.descriptor, arguments.k), 2 * n, block.tiles.scales));
}

void check_arguments(const BlockPlan& block, const Arguments& arguments) {
  check_tensors(block, arguments);
  require_argument(has_row_stride(arguments), "activation_stride",
                   "family sm90 reads rows by a tensor map, whose stride must be a multiple of 8 from 8 on (any "
                   "stride: family=sm80, with tile_n=256, 64 or 32)",
                   arguments.activation_stride);
}

}  // namespace

std::size_t launch_workspace(const BlockPlan& block, const ScheduledLaunch& launch) {
  return workspace_bytes(block, launch, split_workspace_bytes(block, launch.schedule));
}

std::size_t wide_workspace_bytes(const WidePlan& plan, const void* public_arguments,
                                 const runtime::DeviceFacts& device) {
  const ScheduledLaunch launch = schedule_launch(plan.block, public_arguments, device);
  return workspace_bytes(plan.block, launch, largest_split_workspace_bytes(plan.block, launch, device));
}

std::size_t narrow_workspace_bytes(const NarrowPlan& plan, const void* public_arguments,
                                   const runtime::DeviceFacts& device) {
  return largest_split_workspace_bytes(plan.block, schedule_launch(plan.block, public_arguments, device), device);
}

Launch encode_wide_launch(const WidePlan& plan, const void* public_arguments, void* workspace, std::size_t given,
                          const runtime::DeviceFacts& device) {
  const BlockPlan& block = plan.block;
  const ScheduledLaunch scheduled = schedule_launch(block, public_arguments, device);
  if (scheduled.is_empty()) return empty_launch();
  check_arguments(block, scheduled.arguments);
  require_workspace(workspace, given, launch_workspace(block, scheduled));
  auto* const base = static_cast<char*>(workspace);
  W4a16GemmArguments parameters = kernel_parameters(scheduled, base);
  const bool reorders = reorders_activations(block.descriptor);
  if (reorders) add_slices(parameters, block, scheduled, device, base);
  Launch launch = make_launch(block, scheduled.schedule, parameters, device);
  add_maps(launch, block, scheduled.arguments);
  if (!reorders) return launch;
  const std::int64_t row_bytes = parameters.reordered_stride;
  add_map(launch,
          map_of(parameters.reordered, 2, row_bytes / 2, scheduled.arguments.m, row_bytes, block.tiles.activations));
  return launch;
}

Launch encode_narrow_launch(const NarrowPlan& plan, const void* public_arguments, void* workspace, std::size_t given,
                            const runtime::DeviceFacts& device) {
  const BlockPlan& block = plan.block;
  const ScheduledLaunch scheduled = schedule_launch(block, public_arguments, device);
  if (scheduled.is_empty()) return empty_launch();
  check_arguments(block, scheduled.arguments);
  require_workspace(workspace, given, split_workspace_bytes(block, scheduled.schedule));
  const W4a16GemmArguments parameters = kernel_parameters(scheduled, static_cast<char*>(workspace));
  Launch launch = make_launch(block, scheduled.schedule, parameters, device);
  add_maps(launch, block, scheduled.arguments);
  return launch;
}

}  // namespace cubit::ops::w4a16_gemm::sm90
