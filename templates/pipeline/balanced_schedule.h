// Balanced (stream-K style) schedule of attention: how the stages of all sequences are divided among blocks. The host
// computes the division if it knows every length; otherwise the kernel does.
//
// A stage is one pipeline step of all warps of a block. A sequence is one batch entry's tokens for one span of KV heads
// and one head group.
//
// The sequences, one after another, form a row of units. Block b takes a balanced share of this row: `quotient` units,
// and one unit more if b < remainder. There are two kinds of unit. Either every sequence is cut into the same number of
// splits, `parts`, and each split is a unit. Or `parts` is 0 and each stage is a unit; a few extra units before each
// sequence then stand for the per-sequence overhead of finishing it.
#pragma once

#include "core/shared_code.h"

namespace cubit {

/// Division of the row of units among blocks.
struct Division {
  int parts;   // splits per sequence; 0: the units are stages
  int blocks;  // blocks that have work
  int quotient;
  int remainder;
};

/// Number of sequences, the stages of all sequences together, and the stages of the longest sequence. The total is
/// below 2^31.
struct Stages {
  int sequences;
  int total;
  int longest;
};

/// Stages of a sequence that the kernel visits. There are `count` of them; visited stage i is stage i of the sequence,
/// or stage i + skipped from index `kept` on.
struct VisitedStages {
  int count;
  int kept;
  int skipped;

  CUBIT_SHARED_CODE int stage(int index) const { return index < kept ? index : index + skipped; }
};

/// Stages of a sequence. A sequence without tokens still has one stage, because some block must store its zeros.
CUBIT_SHARED_CODE int stages_of(int length, int stage_tokens_log2) {
  const int stages = (length + (1 << stage_tokens_log2) - 1) >> stage_tokens_log2;
  return stages > 1 ? stages : 1;
}

/// Stages that a sliding window needs: the stages with kept tokens, and all stages from the first query token's window
/// on.
CUBIT_SHARED_CODE VisitedStages stages_of_window(int length, int first_query, int window, int kept_tokens,
                                                 int stage_tokens_log2) {
  const int all = stages_of(length, stage_tokens_log2);
  const int with_kept = (kept_tokens + (1 << stage_tokens_log2) - 1) >> stage_tokens_log2;
  const int kept = with_kept < all ? with_kept : all;
  const int begin = first_query - window + 1;
  const int before = begin > 0 ? begin >> stage_tokens_log2 : 0;
  const int skipped = before > kept ? before - kept : 0;
  return {all - skipped, kept, skipped};
}

/// Upper bound on splits per sequence. The bound grows with the square root of the sequence's stages: with more splits,
/// reading the partial results costs more than the splits save.
CUBIT_SHARED_CODE int most_splits(int longest) {
  int log2 = 0;
  for (int i = 0; i < 7; ++i) log2 += (1ll << 2 * i) < 20ll * longest ? 1 : 0;
  return 1 << log2;
}

/// Partial results of a sequence that a block reads in one step of a merge.
constexpr int kPartsOfStep = 16;

/// Upper bound on the blocks that merge the partial results of one sequence; see merge_slices.cuh. One block merges
/// alone if it reads all partial results in one step of its threads. Otherwise there are as many merging blocks as
/// partial results, limited by the bits in the workspace word. `items` is the number of work items of one merge, one
/// per thread and step.
CUBIT_SHARED_CODE int most_slices(int parts, int items, int threads) {
  constexpr int kBits = 32;
  if (parts <= kPartsOfStep && items <= threads) return 1;
  return parts < kBits ? parts : kBits;
}

/// Computes x / slots for a non-negative x.
struct BySlots {
  int slots;

  CUBIT_SHARED_CODE int operator()(int x) const { return x / slots; }
};

/// Smallest number of blocks that finishes `items` items in `rounds` rounds. Example: 512 sequences give 4 to each of
/// 128 blocks. With 132 blocks some blocks had 3 sequences; until they finished, these blocks took memory bandwidth
/// from the blocks that the launch was waiting for, which made an H200 2% slower.
CUBIT_SHARED_CODE int fewest_blocks(int items, int rounds) {
  return rounds > 1 ? (items + rounds - 1) / rounds : items;
}

/// Divides the stages among blocks.
///
/// - `slots` is the number of blocks that the device holds at once, `by_slots` divides by `slots`, and `each` is slots
///   / sequences.
/// - `item_overhead` is the number of stages that a block could read while it finishes a work item. A balanced schedule
///   of stages costs five times that, because every block has two work items and writes a partial result for each.
/// - `sequence_overhead` is the number of units before each sequence when the units are stages.
///
/// Splits of whole sequences are preferred unless they are slower: either no block needs partial results, or every
/// block writes exactly one. A block that runs alone gets an eighth more than its share of the memory bandwidth, so a
/// block with more work than the others costs less than it seems.
template <class Quotient>
CUBIT_SHARED_CODE Division divide(const Stages& stages, int slots, int item_overhead, int sequence_overhead, int each,
                                  const Quotient& by_slots) {
  const int most = most_splits(stages.longest);
  int parts = each < most ? each : most;
  parts = parts < stages.longest ? parts : stages.longest;
  parts = parts > 1 ? parts : 1;
  const int items = stages.sequences * parts;
  const int rounds = by_slots(items + slots - 1);
  const int share = by_slots(stages.total);
  const int busiest = rounds * ((stages.longest + parts - 1) / parts);
  const int in_parts = busiest - busiest / 8 > share ? busiest - busiest / 8 : share;

  int blocks = slots < stages.total ? slots : stages.total;
  const long long useful = (stages.total / stages.longest + 1ll) * most;
  blocks = blocks < useful ? blocks : static_cast<int>(useful);
  const auto by_blocks = [&](int x) { return blocks == slots ? by_slots(x) : x / blocks; };
  const bool even = by_blocks(stages.total) + 5 * item_overhead < in_parts;
  const int units = even ? stages.total + sequence_overhead * stages.sequences : items;
  if (!even) blocks = fewest_blocks(items, rounds);
  const int least = by_blocks(units);
  return {even ? 0 : parts, blocks, least, units - least * blocks};
}

CUBIT_SHARED_CODE Division divide(const Stages& stages, int slots, int item_overhead, int sequence_overhead) {
  return divide(stages, slots, item_overhead, sequence_overhead, slots / stages.sequences, BySlots{slots});
}

}  // namespace cubit
