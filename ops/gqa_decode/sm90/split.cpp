// How kernel family sm90 deals out the tokens of a batch to blocks, from host-side bounds and the device alone.
//
// Every block gets a balanced share of all stages: templates/pipeline/balanced_schedule.h. The kernel computes the
// shares itself if the lengths are on the device.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/gqa_decode/launch.hpp"
#include "ops/gqa_decode/sm90/sm90.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

using Arguments = cubit_gqa_decode_arguments;

constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;  // bytes, of a tensor map
static_assert(2 * kMostBlocks <= kWorkspaceCounters);

/// x / span. Spans are powers of two, and every launch asks for the quotient a dozen times.
template <class Integer>
Integer per_span(Integer x, int span) {
  return x >> std::countr_zero(static_cast<unsigned>(span));
}

/// Stages of a sequence of max_length tokens. With lengths on the device and a window, the most stages of any sequence
/// up to that length: one stage more, because the window's tokens lie across stages.
int longest_sequence(const Plan& plan, const Arguments& arguments, int span) {
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

/// Whether an int can count all stages of a launch, with the overhead of each sequence. The kernel's
/// count of stages is an int.
bool can_count(const Plan& plan, const Arguments& arguments, int span) {
  const std::int64_t units =
      std::max(longest_sequence(plan, arguments, span), arguments.splits) + plan.sequence_overhead_stages();
  return per_span(count_sequences(plan, arguments), span) * units <= std::numeric_limits<int>::max();
}

/// Microseconds of the end of a sequence, when `slots` blocks share `sequences`: the results of a block's warps, and
/// for a split sequence what merge_slices.cuh does. One block reads a few partial results at once; many partial results
/// are read by several blocks, some query rows each, with 16 loads of a thread at a time.
double merge_time(const Plan& plan, int sequences, int span, int slots) {
  constexpr double kBlock = 0.8;      // microseconds
  constexpr double kCounter = 0.7;    // its way to the L2 and back
  constexpr double kOthers = 0.5;     // until they know of the last block
  constexpr double kRoundTrip = 0.8;  // of loads
  const int partials = slots / sequences;
  if (partials <= 1) return kBlock;
  const int rows = span * plan.heads_per_block;
  const int items = rows * plan.descriptor.head_dim / 4;
  const int at_once = 32 * plan.warps;
  const int slices = std::min(most_slices(partials, items, at_once), rows);
  const double loads = static_cast<double>(partials) * items / (slices * at_once);  // of a thread
  return kBlock + kCounter + (slices == 1 ? 0 : kOthers) + std::max(1.0, loads / kPartsOfStep) * kRoundTrip;
}

/// Boxes whose rows begin and end with a page's rows, so that each box lies in one page. There are none if the kernel's
/// window of 32 boxes does not hold a stage, or if boxes would begin between multiples of 128 bytes of shared memory.
/// PTX ISA, "cp.async.bulk.tensor".
Boxes in_pages(const Plan& plan, int count, int rows_of_page) {
  constexpr int kWindow = 32;
  constexpr int kAlignment = 128;
  const int rows = std::gcd(rows_of_page, plan.stage.rows);
  const bool is_aligned = plan.stage.part_bytes != 0 || rows * plan.stage.row_bytes % kAlignment == 0;
  return is_aligned && count * (plan.stage.rows / rows) <= kWindow ? Boxes{count, rows} : Boxes{};
}

/// Boxes of unaligned rows: columns of the interleaved warps, whose rows follow one another in the cache and begin at
/// multiples of 16 bytes. A span has a KV head for each interleaved warp, or the tokens of fewer heads follow one
/// another as well.
Boxes find_boxes_of_unaligned_rows(const Plan& plan, const Arguments& arguments, int span) {
  const std::int64_t row = plan.descriptor.row_bytes();
  const auto is_unit = [](std::int64_t bytes) { return bytes > 0 && bytes < kStrideLimit && bytes % 16 == 0; };
  for (const void* const rows : {arguments.key, arguments.value}) {
    if (reinterpret_cast<std::uintptr_t>(rows) % 16 != 0) return {};
  }
  for (const auto* strides : {&arguments.key_strides, &arguments.value_strides}) {
    const auto& [sequence, token, head] = *strides;
    const bool heads_follow = span == 1 || head == row;
    const bool tokens_follow = token == span * row || (span == plan.interleaved_warps() && is_unit(token));
    const bool spans_are_units = arguments.kv_heads == span || is_unit(head * span);
    const bool sequences_are_units = arguments.batch == 1 || is_unit(sequence);
    if (!heads_follow || !tokens_follow || !spans_are_units || !sequences_are_units) return {};
  }
  if (arguments.max_length < per_span(plan.chunk_tokens(), span)) return {};
  return {plan.token_warps() / plan.interleaved_warps(), 16 * plan.tiles_per_stage};
}

/// Whether the rows of a span follow one another in the cache, first of all its KV heads, then also of its tokens.
struct Adjacency {
  bool heads = true;
  bool tokens = true;
};

Adjacency adjacency_of(const Plan& plan, const Arguments& arguments, int span) {
  const int element = plan.formats().key.element_bytes();
  const std::int64_t row = plan.descriptor.row_bytes() / element;
  // A tensor-map stride must be nonzero and representable. A dimension of size 1 has no stride.
  const auto is_stride = [&](std::int64_t stride, std::int64_t entries) {
    return entries == 1 || (stride > 0 && stride < kStrideLimit / element);
  };
  // No argument says how many pages there are.
  const bool is_paged = plan.descriptor.cache == KvAddressing::paged;
  const int sequences = is_paged ? std::numeric_limits<int>::max() : arguments.batch;
  Adjacency adjacency;
  for (const auto* strides : {&arguments.key_strides, &arguments.value_strides}) {
    const auto& [sequence, token, head] = *strides;
    adjacency.heads = adjacency.heads && (span == 1 || head == row) && token > 0 &&
                      is_stride(head * span, per_span(arguments.kv_heads, span)) && is_stride(sequence, sequences);
    adjacency.tokens = adjacency.tokens && (span == plan.token_warps() || token == span * row);
  }
  return adjacency;
}

/// Boxes that are the keys of a stage, as its values, if a block computes `span` KV heads. There is one column if the
/// rows of all warps follow one another; else one column per span if the span's rows follow one another and are whole
/// parts of the stage's rows; else there are no boxes. A page has few rows, so columns per span are preferred there:
/// their boxes are longer.
Boxes find_boxes(const Plan& plan, const Arguments& arguments, int span) {
  if (plan.copies_unaligned_rows()) return find_boxes_of_unaligned_rows(plan, arguments, span);
  const Adjacency follow = adjacency_of(plan, arguments, span);
  if (!follow.heads || arguments.max_length < per_span(plan.chunk_tokens(), span)) return {};
  const int part = plan.stage.part_bytes;
  const int in_turn = per_span(plan.token_warps(), span);  // tokens of a row, which as many warps take in turn
  const bool are_parts = part > 0 && span * plan.descriptor.row_bytes() % part == 0;
  if (plan.descriptor.cache != KvAddressing::paged) {
    if (follow.tokens) return {1, plan.stage.rows};
    return are_parts ? Boxes{in_turn, plan.stage.rows} : Boxes{};
  }
  if (are_parts) return in_pages(plan, in_turn, arguments.page_size);
  if (follow.tokens && arguments.page_size % in_turn == 0) return in_pages(plan, 1, arguments.page_size / in_turn);
  return {};
}

/// KV heads that a block computes together, by modelled time in microseconds, as an H200 has shown. A larger span means
/// fewer sequences with more partial results each, and more of its heads are merged one after another. A smaller span
/// may leave no boxes to copy.
int choose_span(const Plan& plan, const Arguments& arguments, int slots) {
  constexpr double kBytesPerMicrosecond = 35e3;  // of a block
  constexpr double kVectors = 1.8;               // times as long as boxes
  if (arguments.kv_heads % 2 != 0) return 1;     // there is no other
  const std::int64_t heads = count_sequences(plan, arguments);
  const double stages =
      static_cast<double>(heads) * most_read_tokens(plan.descriptor, arguments) / plan.chunk_tokens() / slots;
  int best = 1;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int span = plan.interleaved_warps(); span >= 1; span /= 2) {
    if (arguments.kv_heads % span != 0 || !can_count(plan, arguments, span)) continue;
    const double copies = std::max(stages, 1.0) * plan.stage_bytes() / kBytesPerMicrosecond *
                          (find_boxes(plan, arguments, span).count > 0 ? 1 : kVectors);
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

void check_countable(const Plan& plan, const Arguments& arguments, int span) {
  if (can_count(plan, arguments, span)) return;
  throw Failure(Status::invalid_argument,
                fmt::format("batch = {}, kv_heads = {}, max_length = {}", arguments.batch, arguments.kv_heads,
                            arguments.max_length),
                fmt::format("family sm90 counts a launch's stages in 31 bits: here of {} tokens, and {} more for each "
                            "sequence{}",
                            per_span(plan.chunk_tokens(), span), plan.sequence_overhead_stages(),
                            plan.head_groups == 1 ? "" : fmt::format(", all {} times", plan.head_groups)),
                "a smaller bound on the length, fewer sequences per launch, or family=sm80");
}

/// Divides `count` sequences of up to `longest` stages among the slots of the device.
void divide_sequences(Split& split, const Plan& plan, const Arguments& arguments, int count, int longest, int slots) {
  if (arguments.splits > 0) {
    const int units = count * arguments.splits;
    const int blocks = fewest_blocks(units, (units + slots - 1) / slots);
    split.division = {arguments.splits, blocks, units / blocks, units % blocks};
    split.units = arguments.splits;
  } else if (arguments.lengths == nullptr) {
    split.division = divide({count, count * longest, longest}, slots, plan.segment_end_stages(), 0);
    split.units = split.division.parts > 0 ? split.division.parts : longest;
  } else {
    split.division.blocks = std::min(slots, count * longest);  // at most; the kernel knows more
    split.blocks_each = split.division.blocks / count;
    split.units = split.division.blocks;
  }
  split.blocks = split.division.blocks;
  if (arguments.lengths != nullptr) return;
  split.unit_stages = split.division.parts > 0 ? longest / split.division.parts : 1;
  split.larger_units = split.division.parts > 0 ? longest % split.division.parts : 0;
}

/// Whether every two blocks that follow one another have a sequence to themselves.
bool has_two_blocks_per_sequence(const Split& split, std::int64_t sequences) {
  if (split.blocks % 2 != 0) return false;
  if (split.division.parts > 0) return split.blocks == 2 * sequences && split.division.parts == 2;
  return split.blocks_each == 2;
}

Split balanced_split(const Plan& plan, const Arguments& arguments, int span, const runtime::DeviceFacts& device) {
  Split split;
  split.splits = arguments.splits;
  split.span = span;
  split.boxes = find_boxes(plan, arguments, span);
  check_countable(plan, arguments, span);
  const std::int64_t sequences = per_span(count_sequences(plan, arguments), span);
  divide_sequences(split, plan, arguments, static_cast<int>(sequences), longest_sequence(plan, arguments, span),
                   blocks_at_once(plan, device));
  split.is_clustered = plan.merges_in_cluster() && has_two_blocks_per_sequence(split, sequences);
  split.slots = split.division.parts == 1 ? 0 : 2 * split.blocks;
  return split;
}

}  // namespace

Split choose_split(const Plan& plan, const Arguments& arguments, const runtime::DeviceFacts& device) {
  check_splits(arguments);
  if (count_sequences(plan, arguments) == 0) return {};
  return balanced_split(plan, arguments, choose_span(plan, arguments, blocks_at_once(plan, device)), device);
}

std::int64_t most_partial_rows(const Plan& plan, const Arguments& arguments, const runtime::DeviceFacts& device) {
  if (choose_split(plan, arguments, device).blocks == 0 || arguments.splits == 1) return 0;
  static const std::int32_t kAny = 0;
  Arguments ragged = arguments;  // whose sequences may have the most stages
  ragged.lengths = &kAny;
  std::int64_t most = 0;
  for (int span = 1; span <= plan.interleaved_warps(); span *= 2) {
    if (arguments.kv_heads % span != 0) continue;
    // A block has at least one stage of one sequence, or one split. Fewer sequences may fill more blocks than more
    // sequences, so the bound does not follow the choice for these arguments.
    const std::int64_t units = std::max(longest_sequence(plan, ragged, span), arguments.splits);
    const std::int64_t sequences = per_span(count_sequences(plan, arguments), span);
    const std::int64_t blocks = std::min<std::int64_t>(blocks_at_once(plan, device), sequences * units);
    most = std::max(most, 2 * blocks * span * plan.heads_per_block);
  }
  return most;
}

}  // namespace cubit::ops::gqa_decode::sm90
