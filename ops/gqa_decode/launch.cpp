// Checks of public arguments, and the members of the kernel's arguments that do not depend on how blocks share the
// work.
#include "ops/gqa_decode/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/divide_by.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/kv_cache/kv_cache.hpp"

namespace cubit::ops::gqa_decode {
namespace {

using Arguments = cubit_gqa_decode_arguments;

constexpr std::int64_t kMostSequences = std::numeric_limits<int>::max() / 256;
constexpr float kLargestSoftmaxScale = 1e30f;  // times log2(e) still a float

std::size_t stats_bytes(std::int64_t partial_rows) { return workspace_part(partial_rows * 2 * sizeof(float)); }

/// Grid and workspace depend on the window.
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
  // The kernel rounds token indices up to whole stages of a block.
  require_argument(arguments.max_length <= std::numeric_limits<int>::max() - 4096, "max_length",
                   "it must be at most 2147479551", arguments.max_length);
  check_window(descriptor, arguments);
}

void check_roles(const GqaDecode& descriptor, const Arguments& arguments) {
  if (descriptor.soft_cap)
    check_soft_cap(arguments.soft_cap);
  else
    require_absent(arguments.soft_cap, "soft_cap", "soft_cap=true");
  require_alignment("alibi_slopes", arguments.alibi_slopes, nullptr, 0, 4, 4);
  require_alignment("sinks", arguments.sinks, nullptr, 0, 4, 4);
}

constexpr const char* kSmaller = "align it and pad its rows, or ask for a smaller alignment in the descriptor";

void check_query_tokens(const GqaDecode& descriptor, const Arguments& arguments) {
  if (descriptor.query_tokens > 1) {
    const int alignment = descriptor.alignment_bytes();
    require_alignment("query token", nullptr, &arguments.query_token_stride, 1, 2, alignment, kSmaller);
    require_alignment("output token", nullptr, &arguments.output_token_stride, 1, 2, alignment, kSmaller);
  }
  if (descriptor.mask == QueryMask::tree) require_alignment("mask", arguments.mask, &arguments.mask_stride, 1, 4, 4);
}

/// The tensors that the kernels read, if they have more than one row.
void check_strides_are_given(const GqaDecode& descriptor, const Arguments& arguments) {
  const bool has_heads = std::int64_t{arguments.batch} * arguments.kv_heads > 1;
  require_some_stride("query_strides", arguments.query_strides, has_heads || descriptor.heads_per_kv > 1);
  require_some_stride("key_strides", arguments.key_strides, has_heads || arguments.max_length > 1);
  require_some_stride("value_strides", arguments.value_strides, has_heads || arguments.max_length > 1);
}

/// Query rows of the output do not overlap. The log-sum-exp is dense and needs no check.
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

}  // namespace

const Arguments& checked_bounds(const GqaDecode& descriptor, const void* public_arguments) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_gqa_decode_arguments");
  check_bounds(descriptor, arguments);
  return arguments;
}

void check_tensors(const CommonPlan& plan, const Arguments& arguments) {
  const GqaDecode& descriptor = plan.descriptor;
  plan.pointers.check(&arguments);
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
  check_strides_are_given(descriptor, arguments);
  const int alignment = descriptor.alignment_bytes();
  require_alignment("query", arguments.query, arguments.query_strides, 2, 2, alignment, kSmaller);
  require_alignment("key", arguments.key, arguments.key_strides, 3, key_bytes, alignment, kSmaller);
  require_alignment("value", arguments.value, arguments.value_strides, 3, value_bytes, alignment, kSmaller);
  require_alignment("output", arguments.output, arguments.output_strides, 2, 2, alignment, kSmaller);
  kv_cache::check_scales(formats, arguments.scales, arguments.max_length > 0);
  const bool paged = descriptor.cache == KvAddressing::paged;
  if (paged) {
    require_argument(arguments.page_size >= 1 && arguments.page_size <= 256, "page_size", "it must be from 1 to 256",
                     arguments.page_size);
    require_alignment("page_table", arguments.page_table, &arguments.page_table_stride, 1, 4, 4);
  } else {
    require_argument(arguments.page_size == 0, "page_size", "it must be 0, for the descriptor has cache=contiguous",
                     arguments.page_size);
  }
  check_query_tokens(descriptor, arguments);
  check_apart(descriptor, arguments, formats.value.head_dim);
  check_roles(descriptor, arguments);
  require_alignment("lengths", arguments.lengths, nullptr, 0, 4, 4);
  require_alignment("lse", arguments.lse, nullptr, 0, 4, 4);
}

void check_splits(const Arguments& arguments) {
  require_argument(arguments.splits >= 0 && arguments.splits <= kMostSplits, "splits", "it must be from 0 to 256",
                   arguments.splits);
}

std::int64_t count_sequences(const CommonPlan& plan, const Arguments& arguments) {
  return std::int64_t{arguments.batch} * arguments.kv_heads * plan.head_groups;
}

int most_read_tokens(const GqaDecode& descriptor, const Arguments& arguments) {
  constexpr std::int64_t kTile = 16;
  if (arguments.window == 0) return arguments.max_length;
  const std::int64_t kept = (arguments.kept_tokens + kTile - 1) / kTile * kTile;
  return static_cast<int>(
      std::min<std::int64_t>(arguments.max_length, kept + arguments.window + descriptor.query_tokens - 1 + kTile - 1));
}

std::size_t workspace_for(const CommonPlan& plan, std::int64_t partial_rows) {
  if (partial_rows == 0) return 0;
  const std::size_t outputs = workspace_part(partial_rows * plan.formats().value.head_dim * sizeof(float));
  return kWorkspaceCounterBytes + stats_bytes(partial_rows) + outputs;
}

void add_tensors(GqaDecodeArguments& result, const GqaDecode& descriptor, const Arguments& arguments) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const bool has_tokens = descriptor.query_tokens > 1;  // else the strides of query tokens are not read
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

void add_workspace(GqaDecodeArguments& result, std::int64_t partial_rows, void* workspace) {
  result.counters = nullptr;
  result.partial = nullptr;
  result.partial_stats = nullptr;
  if (partial_rows == 0) return;
  auto* const bytes = static_cast<char*>(workspace);
  result.counters = reinterpret_cast<unsigned*>(bytes);
  result.partial_stats = reinterpret_cast<float*>(bytes + kWorkspaceCounterBytes);
  result.partial = reinterpret_cast<float*>(bytes + kWorkspaceCounterBytes + stats_bytes(partial_rows));
}

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

}  // namespace cubit::ops::gqa_decode
