// From public arguments to grid, splits, workspace and the kernel's parameters. No device call, no allocation.
#include <cubit/gqa_decode.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/divide_by.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "templates/kernels/gqa_decode_arguments.h"

namespace cubit::ops::gqa_decode {
namespace {

using Arguments = cubit_gqa_decode_arguments;

constexpr std::int64_t kMostPages = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostSequences = std::numeric_limits<int>::max() / 256;
constexpr float kLargestSoftmaxScale = 1e30f;  // times log2(e) still a float

int log2_of(int power) { return std::countr_zero(static_cast<unsigned>(power)); }

std::size_t stats_bytes(std::int64_t partial_rows) { return workspace_part(partial_rows * 2 * sizeof(float)); }

std::size_t workspace_for(const Plan& plan, std::int64_t partial_rows) {
  if (partial_rows == 0) return 0;
  const std::size_t outputs = workspace_part(partial_rows * plan.formats().value.head_dim * sizeof(float));
  return kWorkspaceCounterBytes + stats_bytes(partial_rows) + outputs;
}

/// Grid and workspace depend on it.
void check_window(const GqaDecode& descriptor, const Arguments& arguments) {
  if (descriptor.window) {
    require_argument(arguments.window >= 1, "window", "it must be at least 1", arguments.window);
    require_argument(arguments.kept_tokens >= 0, "kept_tokens", "it must not be negative", arguments.kept_tokens);
    return;
  }
  constexpr const char* kNone = "it must be 0, for the descriptor does not have window=true";
  require_argument(arguments.window == 0, "window", kNone, arguments.window);
  require_argument(arguments.kept_tokens == 0, "kept_tokens", kNone, arguments.kept_tokens);
}

void check_bounds(const GqaDecode& descriptor, const Arguments& arguments) {
  require_argument(arguments.batch >= 0, "batch", "it must not be negative", arguments.batch);
  require_argument(arguments.kv_heads >= 1, "kv_heads", "it must be at least 1", arguments.kv_heads);
  require_argument(arguments.max_length >= 0, "max_length", "it must not be negative", arguments.max_length);
  const std::int64_t sequences = std::int64_t{arguments.batch} * arguments.kv_heads;
  require_argument(sequences <= kMostSequences, "batch * kv_heads", "it must be at most 8388607", sequences);
  // Token indices are rounded up to whole chunks or stages in the kernel.
  require_argument(arguments.max_length <= std::numeric_limits<int>::max() - 4096, "max_length",
                   "it must be at most 2147479551", arguments.max_length);
  check_window(descriptor, arguments);
}

void check_roles(const GqaDecode& descriptor, const Arguments& arguments) {
  if (descriptor.soft_cap)
    check_soft_cap(arguments.soft_cap);
  else
    require_absent(arguments.soft_cap, "soft_cap", "soft_cap=true");
  if (descriptor.alibi)
    require_pointer(arguments.alibi_slopes != nullptr, "alibi_slopes");
  else
    require_absent(arguments.alibi_slopes, "alibi_slopes", "alibi=true");
  if (descriptor.sinks)
    require_pointer(arguments.sinks != nullptr, "sinks");
  else
    require_absent(arguments.sinks, "sinks", "sinks=true");
  if (descriptor.score.empty()) require_absent(arguments.score_parameters, "score_parameters", "score=name@hash");
  require_alignment("alibi_slopes", arguments.alibi_slopes, nullptr, 0, 4, 4);
  require_alignment("sinks", arguments.sinks, nullptr, 0, 4, 4);
}

constexpr const char* kSmaller = "align it and pad its rows, or ask for a smaller alignment in the descriptor";

void check_query_tokens(const GqaDecode& descriptor, const Arguments& arguments) {
  if (descriptor.query_tokens > 1) {
    require_alignment("query token", nullptr, &arguments.query_token_stride, 1, 2, descriptor.alignment, kSmaller);
    require_alignment("output token", nullptr, &arguments.output_token_stride, 1, 2, descriptor.alignment, kSmaller);
  }
  if (descriptor.mask == QueryMask::tree) {
    require_pointer(arguments.mask != nullptr, "mask");
    require_alignment("mask", arguments.mask, &arguments.mask_stride, 1, 4, 4);
  } else if (arguments.mask != nullptr) {
    throw Failure(Status::invalid_argument,
                  fmt::format("mask at {:#x}", reinterpret_cast<std::uintptr_t>(arguments.mask)),
                  "a causal mask is not a tensor", "give NULL, or ask for mask=tree in the descriptor");
  }
}

/// Of the output alone: the log-sum-exp is dense.
void check_apart(const GqaDecode& descriptor, const Arguments& arguments, int channels) {
  const std::int64_t query_heads = std::int64_t{arguments.kv_heads} * descriptor.heads_per_kv;
  WrittenDimension dimensions[] = {
      {"output_strides", 0, arguments.batch, arguments.output_strides[0]},
      {"output_token_stride", -1, descriptor.query_tokens,
       descriptor.query_tokens > 1 ? arguments.output_token_stride : 0},
      {"output_strides", 1, query_heads, arguments.output_strides[1]},
  };
  require_apart(dimensions, channels);
}

void check_tensors(const GqaDecode& descriptor, const Arguments& arguments) {
  require_pointer(arguments.query != nullptr, "query");
  require_pointer(arguments.output != nullptr, "output");
  require_pointer(arguments.key != nullptr || arguments.max_length == 0, "key");
  require_pointer(arguments.value != nullptr || arguments.max_length == 0, "value");
  check_softmax_scale(arguments.softmax_scale);
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const int key_bytes = formats.key.element_bytes();
  const int value_bytes = formats.value.element_bytes();
  // The kernels keep the bytes from token to token in 32 bits, times 16 rows.
  const auto require_token_stride = [](std::int64_t stride, int element_bytes, const char* name) {
    require_argument(stride >= 0 && stride <= (1 << 27) / element_bytes - 1, name,
                     "its bytes must be from 0 to below 128 MiB", stride);
  };
  require_token_stride(arguments.key_strides[1], key_bytes, "key_strides[1] (token)");
  require_token_stride(arguments.value_strides[1], value_bytes, "value_strides[1] (token)");
  require_alignment("query", arguments.query, arguments.query_strides, 2, 2, descriptor.alignment, kSmaller);
  require_alignment("key", arguments.key, arguments.key_strides, 3, key_bytes, descriptor.alignment, kSmaller);
  require_alignment("value", arguments.value, arguments.value_strides, 3, value_bytes, descriptor.alignment, kSmaller);
  require_alignment("output", arguments.output, arguments.output_strides, 2, 2, descriptor.alignment, kSmaller);
  kv_cache::check_scales(formats, arguments.scales, arguments.max_length > 0);
  const bool paged = descriptor.cache == KvAddressing::paged;
  if (paged) {
    require_argument(arguments.page_size >= 1 && arguments.page_size <= 256, "page_size", "it must be from 1 to 256",
                     arguments.page_size);
    require_pointer(arguments.page_table != nullptr || arguments.max_length == 0, "page_table");
    require_alignment("page_table", arguments.page_table, &arguments.page_table_stride, 1, 4, 4);
  } else {
    require_argument(arguments.page_size == 0, "page_size", "it must be 0, for the descriptor has cache=contiguous",
                     arguments.page_size);
    require_absent(arguments.page_table, "page_table", "cache=paged");
  }
  check_query_tokens(descriptor, arguments);
  check_apart(descriptor, arguments, formats.value.head_dim);
  check_roles(descriptor, arguments);
  require_alignment("lengths", arguments.lengths, nullptr, 0, 4, 4);
  require_alignment("lse", arguments.lse, nullptr, 0, 4, 4);
}

/// Whether a box has some of a stage's rows only; then it has one part of them where the stage's rows are in parts.
bool has_short_boxes(const Plan& plan, const Split& split) { return split.box_rows < plan.stage.rows; }

/// In which the swizzle is; of rows that have none, all of one.
int part_bytes(const Plan& plan) {
  return plan.copies_unaligned_rows() ? plan.stage.row_bytes : 16 << plan.stage.swizzle.bits;
}

/// Of a row of a box.
int count_parts(const Plan& plan, const Split& split) {
  return plan.copies_unaligned_rows() ? 1 : plan.stage.row_bytes / split.boxes / part_bytes(plan);
}

/// Warps that take the tokens of a KV head in turn, side by side in a row of the stage.
int warps_in_turn(const Plan& plan, const Split& split) {
  if (plan.copies_unaligned_rows()) return plan.warps_abreast() / split.span;
  return split.boxes > 1 ? 1 : plan.row_warps() / split.span;
}

void add_granules(GqaDecodeArguments& result, const Plan& plan, const Split& split) {
  result.granules_log2 = 0;
  result.column_granules_log2 = 0;
  result.box_parts = 0;
  result.box_bytes = 0;
  if (split.boxes == 0 || plan.descriptor.cache != KvAddressing::paged) return;
  const int of_column = plan.stage.rows / split.box_rows;
  const bool is_part = plan.stage.part_bytes != 0 && has_short_boxes(plan, split);
  result.granules_log2 = log2_of(split.boxes * of_column);
  result.column_granules_log2 = log2_of(of_column);
  result.box_parts = is_part ? count_parts(plan, split) : 1;
  result.box_bytes = static_cast<unsigned>(plan.stage.size() / (result.box_parts << result.granules_log2));
}

/// Addresses, and strides in bytes.
void add_tensors(GqaDecodeArguments& result, const GqaDecode& descriptor, const Arguments& arguments) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const bool has_tokens = descriptor.query_tokens > 1;  // else their strides are not read, and may be anything
  const int key_bytes = formats.key.element_bytes();
  const int value_bytes = formats.value.element_bytes();
  result.query = arguments.query;
  result.key = arguments.key;
  result.value = arguments.value;
  result.lengths = arguments.lengths;
  result.output = arguments.output;
  result.lse = arguments.lse;
  result.query_batch_stride = 2 * arguments.query_strides[0];
  result.query_head_stride = 2 * arguments.query_strides[1];
  result.query_token_stride = has_tokens ? 2 * arguments.query_token_stride : 0;
  result.key_batch_stride = key_bytes * arguments.key_strides[0];
  result.key_token_stride = static_cast<int>(key_bytes * arguments.key_strides[1]);
  result.key_head_stride = key_bytes * arguments.key_strides[2];
  result.value_batch_stride = value_bytes * arguments.value_strides[0];
  result.value_token_stride = static_cast<int>(value_bytes * arguments.value_strides[1]);
  result.value_head_stride = value_bytes * arguments.value_strides[2];
  result.output_batch_stride = 2 * arguments.output_strides[0];
  result.output_head_stride = 2 * arguments.output_strides[1];
  result.output_token_stride = has_tokens ? 2 * arguments.output_token_stride : 0;
  result.key_scales = static_cast<const char*>(arguments.scales.key);
  result.value_scales = static_cast<const char*>(arguments.scales.value);
  kv_cache::copy_scale_strides(formats.key, result.key_scale_strides, arguments.scales.key_strides);
  kv_cache::copy_scale_strides(formats.value, result.value_scale_strides, arguments.scales.value_strides);
  result.page_table = arguments.page_table;
  result.page_table_stride = arguments.page_table_stride;
  result.page_size = divide_by(std::max(arguments.page_size, 1));
  result.mask = arguments.mask;
  result.mask_stride = arguments.mask_stride;
}

/// Null where no block has parts.
void add_workspace(GqaDecodeArguments& result, const Plan& plan, const Split& split, char* workspace) {
  result.counters = nullptr;
  result.partial = nullptr;
  result.partial_stats = nullptr;
  if (split.slots == 0) return;
  result.counters = reinterpret_cast<unsigned*>(workspace);
  result.partial_stats = reinterpret_cast<float*>(workspace + kWorkspaceCounterBytes);
  result.partial = reinterpret_cast<float*>(workspace + kWorkspaceCounterBytes + stats_bytes(split.partial_rows(plan)));
}

/// Who takes what.
void add_split(GqaDecodeArguments& result, const Plan& plan, const Arguments& arguments, const Split& split) {
  result.kv_heads = arguments.kv_heads;
  result.max_length = arguments.max_length;
  result.batch = arguments.batch;
  result.splits = split.splits;
  result.division = split.division;
  result.blocks_each = split.blocks_each;
  result.span_log2 = log2_of(split.span);
  result.boxes = split.boxes;
  result.stage_tokens_log2 = log2_of(plan.chunk_tokens() / split.span);
  result.row_step_log2 = log2_of(warps_in_turn(plan, split));
  result.warp_step_log2 = split.boxes > 1 && !plan.copies_unaligned_rows() ? log2_of(16 * plan.tiles_per_stage) : 0;
  result.heads = divide_by(arguments.kv_heads / split.span * plan.head_groups);
  result.units = divide_by(std::max(split.units, 1));
  result.unit_stages = split.unit_stages;
  result.larger_units = split.larger_units;
}

/// In 1/1024 ns, a stage's bytes at the rate that the memory's clock and width give, of which reads reach so much on an
/// H200 and 90% on an H100. The kernel knows how many blocks share it. A pace that is 5% too fast gains little, one
/// that is too slow costs what it is.
unsigned pace_of(const Plan& plan, const runtime::DeviceFacts& device) {
  constexpr double kReached = 0.95;
  constexpr double kMost = std::numeric_limits<unsigned>::max();
  if (!plan.keeps_pace() || device.memory_bytes_per_second == 0) return 0;
  const double seconds = plan.stage_bytes() / (kReached * static_cast<double>(device.memory_bytes_per_second));
  return static_cast<unsigned>(std::min(1024e9 * seconds, kMost));
}

/// Memories of five stacks (5120 wires, an H100's) take addresses by their remainder of five. Where tokens are a
/// multiple of five bytes apart, so are stages, and sequences whose number of tokens is a power of two then begin at
/// the same remainder: blocks that walk over them in step would ask the same stack at the same time. A cache that all
/// sequences share is walked over in step, for the L2 then has it. The golden ratio's fraction of 2^32, or 0.
unsigned stagger_of(const Plan& plan, const GqaDecodeArguments& arguments, const runtime::DeviceFacts& device) {
  constexpr unsigned kGoldenRatio = 0x9e3779b9;
  constexpr int kStacks = 5;
  const bool is_shared = arguments.batch > 1 && (arguments.key_batch_stride == 0 || arguments.value_batch_stride == 0);
  if (!plan.staggers() || is_shared) return 0;
  const bool is_of_stacks = device.memory_bus_bits > 0 && device.memory_bus_bits % kStacks == 0;
  const bool are_multiples = arguments.key_token_stride % kStacks == 0 && arguments.value_token_stride % kStacks == 0;
  return is_of_stacks && are_multiples ? kGoldenRatio : 0;
}

void add_scores(GqaDecodeArguments& result, const GqaDecode& descriptor, const Arguments& arguments) {
  result.scale_log2 = arguments.softmax_scale * std::numbers::log2e_v<float>;
  result.alibi_slopes = arguments.alibi_slopes;
  result.sinks = arguments.sinks;
  result.score_parameters = arguments.score_parameters;
  result.soft_cap_log2 = arguments.soft_cap * std::numbers::log2e_v<float>;
  result.soft_cap_inverse = descriptor.soft_cap ? 1 / result.soft_cap_log2 : 0;
  result.window = std::min(arguments.window, std::max(arguments.max_length, 1));
  result.kept_tokens = std::min(arguments.kept_tokens, arguments.max_length);
}

GqaDecodeArguments kernel_arguments(const Plan& plan, const Arguments& arguments, const Split& split, char* workspace,
                                    const runtime::DeviceFacts& device) {
  GqaDecodeArguments result;
  add_tensors(result, plan.descriptor, arguments);
  add_workspace(result, plan, split, workspace);
  add_split(result, plan, arguments, split);
  add_granules(result, plan, split);
  result.pace = pace_of(plan, device);
  result.stagger = stagger_of(plan, result, device);
  add_scores(result, plan.descriptor, arguments);
  return result;
}

/// A row of one box has the rows of all warps, of several boxes those of a span; unaligned rows' boxes always have
/// those of the warps that are abreast. They are cut into parts in which the swizzle is; where the stage has first the
/// first parts of all rows, so has the box. Of a paged cache rows are a page's, and pages are as many as there are
/// addresses for: a table may name any.
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
  // Of one entry there is no stride; a map wants one.
  map.strides = {size(part), bytes(strides[1] * tokens_per_row),
                 spans == 1 ? size(part) : bytes(strides[2] * split.span),
                 sequences == 1 ? size(part) : bytes(strides[0])};
  const bool in_parts = plan.stage.part_bytes != 0;
  map.box = {static_cast<std::uint32_t>(part / kElement),
             in_parts && has_short_boxes(plan, split) ? 1 : static_cast<std::uint32_t>(parts),
             static_cast<std::uint32_t>(split.box_rows), 1, 1};
  if (in_parts) {
    std::swap(map.sizes[1], map.sizes[2]);
    std::swap(map.strides[0], map.strides[1]);
    std::swap(map.box[1], map.box[2]);
  }
  if (plan.stage.swizzle.bits > 0) map.swizzle = static_cast<runtime::TensorSwizzle>(part);
  return map;
}

}  // namespace

void check_softmax_scale(double scale) {
  const auto rounded = static_cast<float>(scale);                          // as launches take it
  if (std::fabs(rounded) <= kLargestSoftmaxScale && rounded != 0) return;  // false for NaN
  throw Failure(Status::invalid_argument, fmt::format("softmax_scale = {}", scale),
                !std::isfinite(scale) ? "it is not a finite number"
                : rounded == 0        ? "all tokens would weigh the same"
                                      : "its magnitude is beyond 1e30",
                "accepted: -1e30 to 1e30 but not 0, usually 1 / sqrt(head_dim)");
}

void check_soft_cap(double cap) {
  const auto rounded = static_cast<float>(cap);       // as launches take it
  if (rounded >= 1e-30f && rounded <= 1e30f) return;  // false for NaN
  throw Failure(Status::invalid_argument, fmt::format("soft_cap = {}", cap),
                "a cap is a positive number whose inverse is a float too", "accepted: 1e-30 to 1e30, usually 20 to 50");
}

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_gqa_decode_arguments");
  check_bounds(plan.descriptor, arguments);
  return workspace_for(plan, most_partial_rows(plan, arguments, device));
}

Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_gqa_decode_arguments");
  check_bounds(plan.descriptor, arguments);
  Launch launch;
  launch.empty = arguments.batch == 0;
  if (launch.empty) return launch;
  check_tensors(plan.descriptor, arguments);
  const Split split = choose_split(plan, arguments, device);
  require_workspace(workspace, given, workspace_for(plan, split.partial_rows(plan)));
  const GqaDecodeArguments parameters = kernel_arguments(plan, arguments, split, static_cast<char*>(workspace), device);
  launch.shape.grid = {static_cast<unsigned>(split.blocks), 1, 1};
  if (split.paired) launch.shape.cluster_blocks = 2;
  launch.shape.threads = static_cast<unsigned>(plan.threads());
  launch.shape.dynamic_shared_memory = static_cast<unsigned>(plan.shared_memory);
  constexpr std::size_t kMapsAt = (sizeof parameters + 63) / 64 * 64;
  constexpr std::size_t kMapBytes = sizeof(runtime::EncodedTensorMap);
  static_assert(kMapsAt + 2 * kMapBytes <= sizeof launch.parameters);
  launch.parameter_bytes = plan.family == "sm90" ? kMapsAt + 2 * kMapBytes : sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  launch.spread_blocks(plan.blocks_per_sm, device);
  if (parameters.boxes != 0) {
    launch.maps.add(kMapsAt, map_of(plan, arguments, split, arguments.key, arguments.key_strides));
    launch.maps.add(kMapsAt + kMapBytes, map_of(plan, arguments, split, arguments.value, arguments.value_strides));
  }
  return launch;
}

}  // namespace cubit::ops::gqa_decode
