// Launches of kernel family sm90: grid, workspace, tensor maps and the kernel's parameters. No device call, no
// allocation.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/argument_checks.hpp"
#include "ops/divide_by.hpp"
#include "ops/gqa_decode/launch.hpp"
#include "ops/gqa_decode/sm90/sm90.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

using Arguments = cubit_gqa_decode_arguments;

constexpr std::int64_t kMostPages = std::numeric_limits<std::int32_t>::max();

int log2_of(int power) { return std::countr_zero(static_cast<unsigned>(power)); }

/// Whether a box has only some of a stage's rows. Such a box has one part of the rows if the stage's rows are in parts.
bool has_short_boxes(const Plan& plan, const Split& split) { return split.boxes.rows < plan.stage.rows; }

/// Bytes of a row within which the swizzle is; all bytes of a row without a swizzle.
int part_bytes(const Plan& plan) {
  return plan.copies_unaligned_rows() ? plan.stage.row_bytes : 16 << plan.stage.swizzle.bits;
}

/// Parts of a row of a box.
int count_parts(const Plan& plan, const Split& split) {
  return plan.copies_unaligned_rows() ? 1 : plan.stage.row_bytes / split.boxes.count / part_bytes(plan);
}

/// Interleaved warps that take the tokens of one KV head in turn.
int warps_in_turn(const Plan& plan, const Split& split) {
  if (plan.copies_unaligned_rows()) return plan.interleaved_warps() / split.span;
  return split.boxes.count > 1 ? 1 : plan.token_warps() / split.span;
}

/// Sets how the boxes of a paged cache are looked up.
void add_granules(GqaDecodeArguments& result, const Plan& plan, const Split& split) {
  result.granules_log2 = 0;
  result.column_granules_log2 = 0;
  result.box_parts = 0;
  result.box_bytes = 0;
  if (split.boxes.count == 0 || plan.descriptor.cache != KvAddressing::paged) return;
  const int of_column = plan.stage.rows / split.boxes.rows;
  const bool is_part = plan.stage.part_bytes != 0 && has_short_boxes(plan, split);
  result.granules_log2 = log2_of(split.boxes.count * of_column);
  result.column_granules_log2 = log2_of(of_column);
  result.box_parts = is_part ? count_parts(plan, split) : 1;
  result.box_bytes = static_cast<unsigned>(plan.stage.size() / (result.box_parts << result.granules_log2));
}

/// Sets how blocks share the work.
void add_split(GqaDecodeArguments& result, const Plan& plan, const Arguments& arguments, const Split& split) {
  result.kv_heads = arguments.kv_heads;
  result.max_length = arguments.max_length;
  result.batch = arguments.batch;
  result.splits = split.splits;
  result.division = split.division;
  result.blocks_each = split.blocks_each;
  result.span_log2 = log2_of(split.span);
  result.boxes = split.boxes.count;
  result.stage_tokens_log2 = log2_of(plan.chunk_tokens() / split.span);
  result.row_step_log2 = log2_of(warps_in_turn(plan, split));
  result.warp_step_log2 =
      split.boxes.count > 1 && !plan.copies_unaligned_rows() ? log2_of(16 * plan.tiles_per_stage) : 0;
  result.heads = divide_by(arguments.kv_heads / split.span * plan.head_groups);
  result.units = divide_by(std::max(split.units, 1));
  result.unit_stages = split.unit_stages;
  result.larger_units = split.larger_units;
}

/// The time of a stage's copies, in 1/1024 ns, at the rate that the memory's clock and width give. Reads reach kReached
/// of that rate on an H200, and 90% on an H100. The kernel knows how many blocks share the rate. A pace that is 5% too
/// fast gains little; a pace that is too slow costs its difference.
unsigned pace_of(const Plan& plan, const runtime::DeviceFacts& device) {
  constexpr double kReached = 0.95;
  constexpr double kMost = std::numeric_limits<unsigned>::max();
  if (!plan.paces_copies() || device.memory_bytes_per_second == 0) return 0;
  const double seconds = plan.stage_bytes() / (kReached * static_cast<double>(device.memory_bytes_per_second));
  return static_cast<unsigned>(std::min(1024e9 * seconds, kMost));
}

/// What blocks' start offsets are made from: the golden ratio's fraction of 2^32, or 0 for no offset.
///
/// Memories of five stacks (an H100's 5120 wires) take addresses by their remainder of five. If tokens are a multiple
/// of five bytes apart, so are stages, and sequences whose number of tokens is a power of two then begin at the same
/// remainder: blocks that read them in step would ask the same stack at the same time. A cache that all sequences share
/// is read in step, because the L2 then has it.
unsigned start_offset_of(const Plan& plan, const GqaDecodeArguments& arguments, const runtime::DeviceFacts& device) {
  constexpr unsigned kGoldenRatio = 0x9e3779b9;
  constexpr int kStacks = 5;
  const bool is_shared = arguments.batch > 1 && (arguments.key_batch_stride == 0 || arguments.value_batch_stride == 0);
  if (!plan.offsets_start() || is_shared) return 0;
  const bool has_five_stacks = device.memory_bus_bits > 0 && device.memory_bus_bits % kStacks == 0;
  const bool are_multiples = arguments.key_token_stride % kStacks == 0 && arguments.value_token_stride % kStacks == 0;
  return has_five_stacks && are_multiples ? kGoldenRatio : 0;
}

GqaDecodeArguments kernel_arguments(const Plan& plan, const Arguments& arguments, const Split& split, void* workspace,
                                    const runtime::DeviceFacts& device) {
  GqaDecodeArguments result;
  add_tensors(result, plan.descriptor, arguments);
  add_workspace(result, split.partial_rows(plan), workspace);
  add_split(result, plan, arguments, split);
  add_granules(result, plan, split);
  result.pace = pace_of(plan, device);
  result.stagger = start_offset_of(plan, result, device);
  add_scores(result, plan.descriptor, arguments);
  return result;
}

/// The tensor map of keys or of values. A row of a single column of boxes has the rows of all warps; a row of several
/// columns has the rows of a span; boxes of unaligned rows have the rows of the interleaved warps. Box rows are cut
/// into the parts within which the swizzle is. If the stage has the first parts of all rows first, so has the box. Rows
/// of a paged cache are a page's rows, and there are as many pages as addresses: a page table may name any page.
runtime::TensorMap map_of(const Plan& plan, const Arguments& arguments, const Split& split, const void* cache,
                          const std::int64_t (&strides)[3]) {
  constexpr int kElement = 8;
  constexpr std::int64_t kAddresses = std::int64_t{1} << 47;
  const bool is_paged = plan.descriptor.cache == KvAddressing::paged;
  const int part = part_bytes(plan);
  const int cache_bytes = plan.formats().key.element_bytes();
  const int tokens_per_row = warps_in_turn(plan, split);
  const auto bytes = [&](std::int64_t stride) { return static_cast<std::uint64_t>(stride * cache_bytes); };
  const auto size = [](int count) { return static_cast<std::uint64_t>(count); };
  const int parts = count_parts(plan, split);
  const int sequence_tokens = is_paged ? arguments.page_size : arguments.max_length;
  const std::int64_t sequences =
      is_paged ? std::min<std::int64_t>(kAddresses / static_cast<std::int64_t>(bytes(strides[0])), kMostPages)
               : arguments.batch;
  runtime::TensorMap map;
  map.base = reinterpret_cast<std::uintptr_t>(cache);
  map.element_bytes = kElement;
  map.rank = 5;
  const int spans = arguments.kv_heads / split.span;
  map.sizes = {size(part / kElement), size(parts), size(sequence_tokens / tokens_per_row), size(spans),
               static_cast<std::uint64_t>(sequences)};
  // A dimension of size 1 has no stride; a map wants a legal value.
  map.strides = {size(part), bytes(strides[1] * tokens_per_row),
                 spans == 1 ? size(part) : bytes(strides[2] * split.span),
                 sequences == 1 ? size(part) : bytes(strides[0])};
  const bool in_parts = plan.stage.part_bytes != 0;
  map.box = {static_cast<std::uint32_t>(part / kElement),
             in_parts && has_short_boxes(plan, split) ? 1 : static_cast<std::uint32_t>(parts),
             static_cast<std::uint32_t>(split.boxes.rows), 1, 1};
  if (in_parts) {
    std::swap(map.sizes[1], map.sizes[2]);
    std::swap(map.strides[0], map.strides[1]);
    std::swap(map.box[1], map.box[2]);
  }
  if (plan.stage.swizzle.bits > 0) map.swizzle = static_cast<runtime::TensorSwizzle>(part);
  return map;
}

}  // namespace

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device) {
  const Arguments& arguments = checked_bounds(plan.descriptor, public_arguments);
  return workspace_for(plan, most_partial_rows(plan, arguments, device));
}

Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device) {
  const Arguments& arguments = checked_bounds(plan.descriptor, public_arguments);
  Launch launch;
  launch.empty = arguments.batch == 0;
  if (launch.empty) return launch;
  check_tensors(plan, arguments);
  const Split split = choose_split(plan, arguments, device);
  require_workspace(workspace, given, workspace_for(plan, split.partial_rows(plan)));
  const GqaDecodeArguments parameters = kernel_arguments(plan, arguments, split, workspace, device);
  launch.shape.grid = {static_cast<unsigned>(split.blocks), 1, 1};
  if (split.is_clustered) launch.shape.cluster_blocks = 2;
  launch.shape.threads = static_cast<unsigned>(plan.threads());
  launch.shape.dynamic_shared_memory = static_cast<unsigned>(plan.shared_memory);
  constexpr std::size_t kMapsAt = runtime::map_offset(sizeof parameters);
  constexpr std::size_t kMapBytes = sizeof(runtime::EncodedTensorMap);
  static_assert(kMapsAt + 2 * kMapBytes <= sizeof launch.parameters);
  launch.parameter_bytes = kMapsAt + 2 * kMapBytes;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  launch.spread_blocks(plan.blocks_per_sm, device);
  if (parameters.boxes != 0) {
    launch.maps.add(kMapsAt, map_of(plan, arguments, split, arguments.key, arguments.key_strides));
    launch.maps.add(kMapsAt + kMapBytes, map_of(plan, arguments, split, arguments.value, arguments.value_strides));
  }
  return launch;
}

}  // namespace cubit::ops::gqa_decode::sm90
