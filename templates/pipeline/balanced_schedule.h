// How the stages of all sequences are dealt out to blocks; by the host where it knows every length, else by the kernel.
// A stage is a step of all warps of a block, a sequence one span of KV heads' (and head group's) part of a batch entry.
//
// Sequences one after another are a row of units, of which block b takes an even share: `quotient` of them, and one
// more if b < remainder. Either every sequence is cut into the same number of units, `parts`, or (parts = 0) its stages
// are the units, with a gap before each sequence that stands for the time that its end costs.
#pragma once

#include "core/shared_code.h"

namespace cubit {

struct Division {
  int parts;
  int blocks;  // that have work
  int quotient;
  int remainder;
};

/// All sequences: how many, their stages together, and those of the longest. The sum is below 2^31.
struct Stages {
  int sequences;
  int total;
  int longest;
};

/// A sequence's stages that are walked over: `count` of them, of which number i is stage i, or i + skipped from `kept`
/// on.
struct WalkedStages {
  int count;
  int kept;
  int skipped;

  CUBIT_SHARED_CODE int stage(int index) const { return index < kept ? index : index + skipped; }
};

/// A sequence without tokens still has a stage, so that somebody stores its zeros.
CUBIT_SHARED_CODE int stages_of(int length, int stage_tokens_log2) {
  const int stages = (length + (1 << stage_tokens_log2) - 1) >> stage_tokens_log2;
  return stages > 1 ? stages : 1;
}

/// Those with tokens that are kept, and all from the one in which the first query token's window begins.
CUBIT_SHARED_CODE WalkedStages stages_of_window(int length, int first_query, int window, int kept_tokens,
                                                int stage_tokens_log2) {
  const int all = stages_of(length, stage_tokens_log2);
  const int with_kept = (kept_tokens + (1 << stage_tokens_log2) - 1) >> stage_tokens_log2;
  const int kept = with_kept < all ? with_kept : all;
  const int begin = first_query - window + 1;
  const int before = begin > 0 ? begin >> stage_tokens_log2 : 0;
  const int skipped = before > kept ? before - kept : 0;
  return {all - skipped, kept, skipped};
}

/// By the square root of a sequence's stages: in more parts, reading the partial results costs more than they save.
CUBIT_SHARED_CODE int most_parts(int longest) {
  int log2 = 0;
  for (int i = 0; i < 7; ++i) log2 += (1ll << 2 * i) < 20ll * longest ? 1 : 0;
  return 1 << log2;
}

/// Parts of a sequence that a block reads in one step of a merge.
constexpr int kPartsOfStep = 16;

/// How many blocks merge a sequence's parts, at most, see merge_slices.cuh: one where it reads them all in one step of
/// its threads, else as many as there are, and as a word of the workspace has bits for. `items`: what a thread takes at
/// once.
CUBIT_SHARED_CODE int most_slices(int parts, int items, int threads) {
  constexpr int kBits = 32;
  if (parts <= kPartsOfStep && items <= threads) return 1;
  return parts < kBits ? parts : kBits;
}

/// x / slots, of x not below 0.
struct BySlots {
  int slots;

  CUBIT_SHARED_CODE int operator()(int x) const { return x / slots; }
};

/// As few as make no more than `rounds` of so many items: 512 sequences are 4 for each of 128 blocks. With 132 some had
/// 3, and until they ended they took a share of the memory from those that the launch waits for: an H200 was 2% slower.
CUBIT_SHARED_CODE int fewest_blocks(int items, int rounds) {
  return rounds > 1 ? (items + rounds - 1) / rounds : items;
}

/// `slots`: blocks that the device holds at once, `by_slots`: how to divide by them, `each`: slots / sequences.
/// `flush`: the stages that a block could read in the time in which it ends a segment; even shares cost five times
/// that, for every block has two segments and a partial result of each. `gap`: the units before a sequence whose units
/// are stages.
///
/// Parts of whole sequences are preferred unless they are slower: they need no partial results, or every block has one.
/// A block alone is faster than its share of the device's memory, by an eighth, so one with more than others costs less
/// than it seems.
template <class Quotient>
CUBIT_SHARED_CODE Division divide(const Stages& stages, int slots, int flush, int gap, int each,
                                  const Quotient& by_slots) {
  const int most = most_parts(stages.longest);
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
  const bool even = by_blocks(stages.total) + 5 * flush < in_parts;
  const int units = even ? stages.total + gap * stages.sequences : items;
  if (!even) blocks = fewest_blocks(items, rounds);
  const int least = by_blocks(units);
  return {even ? 0 : parts, blocks, least, units - least * blocks};
}

CUBIT_SHARED_CODE Division divide(const Stages& stages, int slots, int flush, int gap) {
  return divide(stages, slots, flush, gap, slots / stages.sequences, BySlots{slots});
}

}  // namespace cubit
