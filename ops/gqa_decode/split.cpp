// How the tokens of a batch are dealt out to blocks: from host-side bounds and the device alone.
//
// Family sm80 cuts every sequence into the same number of splits: choose_splits. Family sm90 gives every block an even
// share: templates/pipeline/balanced_schedule.h, by the kernel itself where the lengths are on the device.
#include <cubit/gqa_decode.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {
namespace {

constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;  // bytes, of a tensor map
static_assert(2 * kMostBlocks <= kWorkspaceCounters);

/// x / span. Spans are powers of two, and every launch asks for this a dozen times.
template <class Integer>
Integer per_span(Integer x, int span) {
  return x >> std::countr_zero(static_cast<unsigned>(span));
}

/// Tokens that a block walks over, at most: those that are kept and the window, each in whole tiles.
int most_walked(const Plan& plan, const cubit_gqa_decode_arguments& arguments) {
  constexpr std::int64_t kTile = 16;
  if (arguments.window == 0) return arguments.max_length;
  const std::int64_t kept = (arguments.kept_tokens + kTile - 1) / kTile * kTile;
  return static_cast<int>(std::min<std::int64_t>(
      arguments.max_length, kept + arguments.window + plan.descriptor.query_tokens - 1 + kTile - 1));
}

Split equal_splits(const Plan& plan, const cubit_gqa_decode_arguments& arguments, std::int64_t sequences,
                   const runtime::DeviceFacts& device) {
  Split split;
  const int walked = most_walked(plan, arguments);
  split.splits = arguments.splits > 0 ? arguments.splits : choose_splits(plan, sequences, walked, device);
  if (split.splits > 1 && sequences > kWorkspaceCounters) {
    throw Failure(Status::invalid_argument,
                  fmt::format("splits = {} of {} sequences (batch * kv_heads * head groups)", split.splits, sequences),
                  fmt::format("more than one split needs a counter for each, and there are {}", kWorkspaceCounters),
                  "accepted: 0, which leaves the choice to cubit, and 1");
  }
  split.blocks = sequences * split.splits;
  split.slots = split.splits > 1 ? split.blocks : 0;
  return split;
}

/// Stages of a sequence of max_length tokens. With lengths on the device and a window, of any up to that: as the
/// window's tokens lie across stages, one more.
int longest_sequence(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int span) {
  const int log2 = std::countr_zero(static_cast<unsigned>(per_span(plan.chunk_tokens(), span)));
  const int all = stages_of(arguments.max_length, log2);
  if (arguments.window == 0) return all;
  const int window = std::min(arguments.window, std::max(arguments.max_length, 1));
  const int kept = std::min(arguments.kept_tokens, arguments.max_length);
  const int query_tokens = plan.descriptor.query_tokens;
  if (arguments.lengths == nullptr)
    return stages_of_window(arguments.max_length, arguments.max_length - query_tokens, window, kept, log2).count;
  return std::min(all, stages_of(kept, log2) + stages_of(query_tokens + window - 2, log2) + 1);
}

/// The kernel counts all stages of a launch, and what segments' ends cost in such (gap_stages), in an int.
bool can_count(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int span, int gap_stages) {
  const std::int64_t units = std::max(longest_sequence(plan, arguments, span), arguments.splits) + gap_stages;
  return per_span(count_sequences(plan, arguments), span) * units <= std::numeric_limits<int>::max();
}

/// The end of a sequence of which `slots` blocks share `sequences`: the warps' results, and where it is split what
/// merge_slices.cuh does. With few parts one block reads them all at once, else several blocks some rows each, with 16
/// loads of a thread at a time.
double merge_time(const Plan& plan, int sequences, int span, int slots) {
  constexpr double kBlock = 0.8;      // microseconds
  constexpr double kCounter = 0.7;    // its way to the L2 and back
  constexpr double kOthers = 0.5;     // until they know of the last block
  constexpr double kRoundTrip = 0.8;  // of loads
  const int parts = slots / sequences;
  if (parts <= 1) return kBlock;
  const int rows = span * plan.heads_per_block;
  const int items = rows * plan.descriptor.head_dim / 4;
  const int at_once = 32 * plan.warps;
  const int slices = std::min(most_slices(parts, items, at_once), rows);
  const double loads = static_cast<double>(parts) * items / (slices * at_once);  // of a thread
  return kBlock + kCounter + (slices == 1 ? 0 : kOthers) + std::max(1.0, loads / kPartsOfStep) * kRoundTrip;
}

/// Columns of boxes, and the rows of each box.
struct Boxes {
  int count = 0;
  int rows = 0;
};

/// Boxes whose rows begin and end with a page's, so that each lies in one page. None where a window of the kernel's, 32
/// boxes one behind the other, does not have a stage's, or where they would begin between 128 bytes of shared memory.
/// PTX ISA, "cp.async.bulk.tensor".
Boxes in_pages(const Plan& plan, int count, int rows_of_page) {
  constexpr int kWindow = 32;
  constexpr int kAlignment = 128;
  const int rows = std::gcd(rows_of_page, plan.stage.rows);
  const bool is_aligned = plan.stage.part_bytes != 0 || rows * plan.stage.row_bytes % kAlignment == 0;
  return is_aligned && count * (plan.stage.rows / rows) <= kWindow ? Boxes{count, rows} : Boxes{};
}

/// Of unaligned rows: columns of the warps that are abreast, whose rows follow one another in the cache, at multiples
/// of 16 bytes. A span has a head for each of those warps, or the tokens of fewer follow one another as well.
Boxes find_boxes_of_unaligned_rows(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int span) {
  const std::int64_t row = plan.descriptor.row_bytes();
  const auto is_unit = [](std::int64_t bytes) { return bytes > 0 && bytes < kStrideLimit && bytes % 16 == 0; };
  for (const void* const rows : {arguments.key, arguments.value}) {
    if (reinterpret_cast<std::uintptr_t>(rows) % 16 != 0) return {};
  }
  for (const auto* strides : {&arguments.key_strides, &arguments.value_strides}) {
    const auto& [sequence, token, head] = *strides;
    const bool heads_follow = span == 1 || head == row;
    const bool tokens_follow = token == span * row || (span == plan.warps_abreast() && is_unit(token));
    const bool spans_are_units = arguments.kv_heads == span || is_unit(head * span);
    const bool sequences_are_units = arguments.batch == 1 || is_unit(sequence);
    if (!heads_follow || !tokens_follow || !spans_are_units || !sequences_are_units) return {};
  }
  if (arguments.max_length < per_span(plan.chunk_tokens(), span)) return {};
  return {plan.row_warps() / plan.warps_abreast(), 16 * plan.tiles_per_stage};
}

/// Family sm90: boxes that are the keys of a stage, as its values, where a block takes `span` KV heads. One column if
/// the rows of all warps follow one another, else one per span if its rows do and are whole parts of the stage's; none:
/// there are none. Of a page, whose rows are few, the latter are preferred: they are longer.
Boxes find_boxes(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int span) {
  if (plan.copies_unaligned_rows()) return find_boxes_of_unaligned_rows(plan, arguments, span);
  const int element = plan.formats().key.element_bytes();
  const std::int64_t row = plan.descriptor.row_bytes() / element;
  // Of a tensor map, which wants 0 as little as what it cannot hold; of one entry there is none.
  const auto is_stride = [&](std::int64_t stride, std::int64_t entries) {
    return entries == 1 || (stride > 0 && stride < kStrideLimit / element);
  };
  const bool is_paged = plan.descriptor.cache == KvAddressing::paged;
  const int sequences =
      is_paged ? std::numeric_limits<int>::max() : arguments.batch;  // nobody says how many pages there are
  bool heads_follow = true;
  bool tokens_follow = true;
  for (const auto* strides : {&arguments.key_strides, &arguments.value_strides}) {
    const auto& [sequence, token, head] = *strides;
    heads_follow = heads_follow && (span == 1 || head == row) && token > 0 &&
                   is_stride(head * span, per_span(arguments.kv_heads, span)) && is_stride(sequence, sequences);
    tokens_follow = tokens_follow && (span == plan.row_warps() || token == span * row);
  }
  if (!heads_follow || arguments.max_length < per_span(plan.chunk_tokens(), span)) return {};
  const int part = plan.stage.part_bytes;
  const int in_turn = per_span(plan.row_warps(), span);  // tokens of a row, where warps take them in turn
  const bool are_parts = part > 0 && span * plan.descriptor.row_bytes() % part == 0;
  if (!is_paged) {
    if (tokens_follow) return {1, plan.stage.rows};
    return are_parts ? Boxes{in_turn, plan.stage.rows} : Boxes{};
  }
  if (are_parts) return in_pages(plan, in_turn, arguments.page_size);
  if (tokens_follow && arguments.page_size % in_turn == 0) return in_pages(plan, 1, arguments.page_size / in_turn);
  return {};
}

/// KV heads that a block takes together. A larger span is fewer sequences with more parts each, and more of its heads
/// are merged one after the other; a smaller one may leave no boxes to copy. In microseconds, as an H200 has shown.
int choose_span(const Plan& plan, const cubit_gqa_decode_arguments& arguments, int slots) {
  constexpr double kBytesPerMicrosecond = 35e3;  // of a block
  constexpr double kPieces = 1.8;                // times as long as boxes
  if (arguments.kv_heads % 2 != 0) return 1;     // there is no other
  const std::int64_t heads = count_sequences(plan, arguments);
  const double stages = static_cast<double>(heads) * most_walked(plan, arguments) / plan.chunk_tokens() / slots;
  const int gap_stages = plan.gap_stages();
  int best = 1;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int span = plan.warps_abreast(); span >= 1; span /= 2) {
    if (arguments.kv_heads % span != 0 || !can_count(plan, arguments, span, gap_stages)) continue;
    const double copies = std::max(stages, 1.0) * plan.stage_bytes() / kBytesPerMicrosecond *
                          (find_boxes(plan, arguments, span).count > 0 ? 1 : kPieces);
    const double cost = copies + merge_time(plan, static_cast<int>(per_span(heads, span)), span, slots);
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
  const Boxes boxes = find_boxes(plan, arguments, span);
  split.boxes = boxes.count;
  split.box_rows = boxes.rows;
  const std::int64_t sequences = per_span(count_sequences(plan, arguments), span);
  const int stage_tokens = per_span(plan.chunk_tokens(), span);
  const int longest = longest_sequence(plan, arguments, span);
  const int flush = plan.flush_stages();
  if (!can_count(plan, arguments, span, plan.gap_stages())) {
    throw Failure(
        Status::invalid_argument,
        fmt::format("batch = {}, kv_heads = {}, max_length = {}", arguments.batch, arguments.kv_heads,
                    arguments.max_length),
        fmt::format("family sm90 counts a launch's stages in 31 bits: here of {} tokens, and {} more for each "
                    "sequence{}",
                    stage_tokens, plan.gap_stages(),
                    plan.head_groups == 1 ? "" : fmt::format(", all {} times", plan.head_groups)),
        "a smaller bound on the length, fewer sequences per launch, or family=sm80");
  }
  const auto count = static_cast<int>(sequences);
  if (arguments.splits > 0) {
    const int units = count * arguments.splits;
    const int blocks = fewest_blocks(units, (units + slots - 1) / slots);
    split.division = {arguments.splits, blocks, units / blocks, units % blocks};
    split.units = arguments.splits;
  } else if (arguments.lengths == nullptr) {
    split.division = divide({count, count * longest, longest}, slots, flush, 0);
    split.units = split.division.parts > 0 ? split.division.parts : longest;
  } else {
    split.division.blocks = std::min(slots, count * longest);  // at most; the kernel knows more
    split.blocks_each = split.division.blocks / count;
    split.units = split.division.blocks;
  }
  split.blocks = split.division.blocks;
  if (arguments.lengths == nullptr) {
    split.unit_stages = split.division.parts > 0 ? longest / split.division.parts : 1;
    split.larger_units = split.division.parts > 0 ? longest % split.division.parts : 0;
  }
  split.paired =
      plan.merges_pairs() && split.blocks % 2 == 0 &&
      (split.division.parts > 0 ? split.blocks == 2 * sequences && split.division.parts == 2 : split.blocks_each == 2);
  split.slots = split.division.parts == 1 ? 0 : 2 * split.blocks;
  return split;
}

}  // namespace

/// Time is modelled in chunks: waves of blocks, each of its chunks and a fixed part, then one block that reads all
/// partial results of its sequence. For a number of waves the best splits are either as many as fit, or fewer where
/// reading the partial results would cost more than they save; a handful of candidates, because every launch asks.
int choose_splits(const Plan& plan, std::int64_t sequences, int max_length, const runtime::DeviceFacts& device) {
  constexpr double kFixedChunks = 2;
  constexpr int kMostWaves = 4;
  if (sequences == 0 || sequences > kWorkspaceCounters) return 1;
  const int chunks = (max_length + plan.chunk_tokens() - 1) / plan.chunk_tokens();
  const int most = std::min(chunks, kMostSplits);
  if (most <= 1) return 1;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const kv_cache::CacheFormats formats = plan.formats();
  const double partial_bytes = 4.0 * plan.heads_per_block * formats.value.head_dim;
  const double chunk_bytes =
      static_cast<double>(plan.chunk_tokens()) * (formats.key.row_bytes() + formats.value.row_bytes());
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

std::int64_t count_sequences(const Plan& plan, const cubit_gqa_decode_arguments& arguments) {
  return std::int64_t{arguments.batch} * arguments.kv_heads * plan.head_groups;
}

Split choose_split(const Plan& plan, const cubit_gqa_decode_arguments& arguments, const runtime::DeviceFacts& device) {
  require_argument(arguments.splits >= 0 && arguments.splits <= kMostSplits, "splits", "it must be from 0 to 256",
                   arguments.splits);
  const std::int64_t sequences = count_sequences(plan, arguments);
  if (sequences == 0) return {};
  if (plan.family != "sm90") return equal_splits(plan, arguments, sequences, device);
  return even_shares(plan, arguments, choose_span(plan, arguments, blocks_at_once(plan, device)), device);
}

std::int64_t most_partial_rows(const Plan& plan, const cubit_gqa_decode_arguments& arguments,
                               const runtime::DeviceFacts& device) {
  const Split split = choose_split(plan, arguments, device);
  if (plan.family != "sm90" || split.blocks == 0) return split.slots * plan.heads_per_block;
  static const std::int32_t kAny = 0;
  std::int64_t most = 0;
  for (const std::int32_t* lengths : {static_cast<const std::int32_t*>(nullptr), &kAny}) {
    cubit_gqa_decode_arguments either = arguments;
    either.lengths = lengths;
    for (int span = 1; span <= plan.warps_abreast(); span *= 2) {
      if (arguments.kv_heads % span != 0 || !can_count(plan, either, span, plan.gap_stages())) continue;
      most = std::max(most, even_shares(plan, either, span, device).partial_rows(plan));
    }
  }
  return most;
}

}  // namespace cubit::ops::gqa_decode
