// How the tokens of a batch are dealt out to blocks: from host-side bounds and the device alone.
//
// Family sm80 cuts every sequence into the same number of splits: choose_splits. Family sm90 gives every block an even share:
// templates/even_share.h, by the kernel itself where the lengths are on the device.
#include <cubit/gqa_decode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/argument_checks.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {
namespace {

constexpr int kMostSplits = 256;
constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;  // bytes, of a tensor map
constexpr std::int64_t kCounters = kWorkspaceCounterBytes / sizeof(unsigned);
static_assert(3 * kMostBlocks <= kCounters);

}  // namespace

/// Time is modelled in chunks: waves of blocks, each of its chunks and a fixed part, then one block that reads all
/// partial results of its sequence. For a number of waves the best splits are either as many as fit, or fewer where
/// reading the partial results would cost more than they save; a handful of candidates, because every launch asks.
int choose_splits(const Plan& plan, std::int64_t sequences, int max_length, const runtime::DeviceFacts& device) {
  constexpr double kFixedChunks = 2;
  constexpr int kMostWaves = 4;
  if (sequences == 0 || sequences > kCounters) return 1;
  const int chunks = (max_length + plan.chunk_tokens() - 1) / plan.chunk_tokens();
  const int most = std::min(chunks, kMostSplits);
  if (most <= 1) return 1;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const double partial_bytes = 4.0 * plan.heads_per_block * plan.descriptor.head_dim;
  const double chunk_bytes = 2.0 * plan.chunk_tokens() * plan.descriptor.row_bytes();
  const double combine_chunks = 0.5 * partial_bytes / chunk_bytes;
  int best = 1;
  double best_cost = std::numeric_limits<double>::infinity();
  const auto consider = [&](int splits) {
    const std::int64_t waves = (sequences * splits + resident - 1) / resident;
    const int share = (chunks + splits - 1) / splits;
    const double merge = splits > 1 ? splits * combine_chunks : 0;
    const double cost = static_cast<double>(waves) * (share + kFixedChunks) + merge;
    if (cost >= best_cost) return;
    best = splits;
    best_cost = cost;
  };
  consider(1);
  for (int waves = 1; waves <= kMostWaves; ++waves) {
    const auto fit = static_cast<int>(std::clamp<std::int64_t>(waves * resident / sequences, 1, most));
    consider(fit);
    consider(std::clamp(static_cast<int>(std::sqrt(waves * chunks / combine_chunks)), 1, fit));
    if (fit == most) break;
  }
  return best;
}

namespace {

Split equal_splits(const Plan& plan, const cubit_gqa_decode_arguments& arguments, std::int64_t sequences,
                   const runtime::DeviceFacts& device) {
  Split split;
  split.splits = arguments.splits > 0 ? arguments.splits : choose_splits(plan, sequences, arguments.max_length, device);
  require_argument(split.splits == 1 || sequences <= kCounters, "splits",
                   "more than one needs a counter per sequence, KV head and head group, of which there are 4096",
                   arguments.splits);
  split.blocks = sequences * split.splits;
  split.slots = split.splits > 1 ? split.blocks : 0;
  return split;
}

/// KV heads that a block takes together: so many that boxes can be copied, unless the sequences then have so many parts that
/// merging them costs more. In stages of a block, as an H200 has shown: other copies take twice as long, and the end of a
/// split sequence the time of three, with more parts and more heads that of up to ten.
int choose_span(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int slots) {
  const std::int64_t heads = count_sequences(plan, arguments);
  const double stages = static_cast<double>(heads) * arguments.max_length / plan.chunk_tokens() / slots;
  int best = 1;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int span = plan.warps; span >= 1; span /= 2) {
    if (arguments.kv_heads % span != 0) continue;
    const std::int64_t parts = std::max<std::int64_t>(slots * span / heads, 1);
    const double merge = parts == 1 ? 1 : std::min(3 + static_cast<double>(parts * span) / 32, 10.0);
    const double cost = std::max(stages, 1.0) * (has_boxes(plan, arguments, span) ? 1 : 2) + merge;
    if (cost >= best_cost) continue;
    best = span;
    best_cost = cost;
  }
  return best;
}

int blocks_at_once(const Plan& plan, const runtime::DeviceFacts& device) {
  return static_cast<int>(
      std::min<std::int64_t>(std::int64_t{device.multiprocessors} * plan.blocks_per_sm, kMostBlocks));
}

Split even_shares(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int span,
                  const runtime::DeviceFacts& device) {
  const int slots = blocks_at_once(plan, device);
  Split split;
  split.splits = arguments.splits;
  split.span = span;
  const std::int64_t sequences = count_sequences(plan, arguments) / split.span;
  const int stage_tokens = plan.chunk_tokens() / split.span;
  const int longest = std::max(1, (arguments.max_length + stage_tokens - 1) / stage_tokens);
  const int flush = plan.flush_stages();
  const std::int64_t parts = std::max(arguments.splits, 1);
  require_argument(sequences * (std::max<std::int64_t>(longest, parts) + flush) <= std::numeric_limits<int>::max(),
                   "max_length", "batch * kv_heads * max_length must be below 2^31 stages of the plan",
                   arguments.max_length);
  const auto count = static_cast<int>(sequences);
  if (arguments.splits > 0) {
    const int units = count * arguments.splits;
    const int blocks = std::min(slots, units);
    split.division = {arguments.splits, blocks, units / blocks, units % blocks};
    split.units = arguments.splits;
  } else if (arguments.lengths == nullptr) {
    split.division = divide({count, count * longest, longest}, slots, flush, 0);
    split.units = split.division.parts > 0 ? split.division.parts : longest;
  } else {
    split.division.blocks = std::min(slots, count * longest);  // at most; the kernel knows more
  }
  split.blocks = split.division.blocks;
  split.slots = split.division.parts == 1 ? 0 : 4 * split.blocks;
  return split;
}

}  // namespace

bool has_boxes(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int span) {
  const std::int64_t row = plan.descriptor.row_bytes() / plan.format().element_bytes();
  // Of a tensor map, which wants 0 as little as what it cannot hold; of one entry there is none.
  const auto is_stride = [&](std::int64_t stride, std::int64_t entries) {
    return entries == 1 || (stride > 0 && stride < kStrideLimit / plan.format().element_bytes());
  };
  const auto follow = [&](const std::int64_t(&strides)[3]) {
    const bool heads_follow = span == 1 || strides[2] == row;
    const bool tokens_follow = span == plan.warps || strides[1] == span * row;
    return heads_follow && tokens_follow && strides[1] > 0 && is_stride(strides[2] * span, arguments.kv_heads / span) &&
           is_stride(strides[0], arguments.batch);
  };
  return follow(arguments.key_strides) && follow(arguments.value_strides);
}

std::int64_t count_sequences(const Plan& plan, const cubit_gqa_decode_arguments& arguments) {
  return std::int64_t{arguments.batch} * arguments.kv_heads * plan.head_groups;
}

Split choose_split(const Plan& plan, const cubit_gqa_decode_arguments& arguments, const runtime::DeviceFacts& device) {
  require_argument(arguments.splits >= 0 && arguments.splits <= kMostSplits, "splits", "it must be from 0 to 256",
                   arguments.splits);
  const std::int64_t sequences = count_sequences(plan, arguments);
  if (sequences == 0) return {};
  if (plan.family != Family::sm90) return equal_splits(plan, arguments, sequences, device);
  return even_shares(plan, arguments, choose_span(plan, arguments, blocks_at_once(plan, device)), device);
}

std::int64_t most_partial_rows(const Plan& plan, const cubit_gqa_decode_arguments& arguments,
                               const runtime::DeviceFacts& device) {
  const Split split = choose_split(plan, arguments, device);
  if (plan.family != Family::sm90 || split.blocks == 0) return split.slots * plan.heads_per_block;
  static const std::int32_t kAny = 0;
  std::int64_t most = 0;
  for (const std::int32_t* lengths : {static_cast<const std::int32_t*>(nullptr), &kAny}) {
    cubit_gqa_decode_arguments either = arguments;
    either.lengths = lengths;
    for (int span = 1; span <= plan.warps; span *= 2) {
      if (arguments.kv_heads % span != 0) continue;
      most = std::max(most, even_shares(plan, either, span, device).partial_rows(plan));
    }
  }
  return most;
}

}  // namespace cubit::ops::gqa_decode
