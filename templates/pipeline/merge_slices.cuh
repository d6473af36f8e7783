// Merge of a sequence's partial results by several of its blocks; each block merges one slice of the query rows.
//
// Why several blocks: one block reads at most 64 bytes per cycle from the L2, however many loads are in flight. When
// there is much to read, the last S blocks to arrive at the sequence merge it together, one slice each in the order of
// arrival. All of them except the last wait for the last arrival. These blocks need not be resident at the same time: a
// block waits only for a bounded time, or not at all if it has other work. A block that stops waiting leaves its slice
// to the last block.
//
// State: one workspace word per sequence, which belongs to the block in which the sequence begins. Because everything
// is in one word, there are only two cases. Either a slice is left before the last arrival, and then the last block
// sees that. Or it is left after the last arrival, and then the slice's own block sees the arrival and merges the
// slice.
//
//   | slices left, a bit each (32) | blocks that know of the last arrival (16) | blocks that have arrived (16) |
//
// The last block to learn of the last arrival resets the word to zero. Partial results are read in the order of their
// blocks, whichever block merges them, so the outcome does not depend on the order of arrival.
//
// PTX ISA, "Memory Consistency Model": bar.sync orders a block's stores before its atom.acq_rel. Another block's
// atom.acq_rel or ld.acquire that observes the atomic orders these stores before that block's loads behind its
// bar.sync.
#pragma once

#include "attention/warp_results.cuh"
#include "pipeline/balanced_schedule.cuh"

namespace cubit {

/// Division of a sequence's query rows among the blocks that merge them: `count` slices of 2^rows_log2 rows. Within a
/// block, `groups` groups of threads work on the same rows, and each group merges partials_of_group partial results.
struct Slices {
  int count;
  int rows_log2;
  int groups;
  int partials_of_group;

  /// Computes the slices. There is one slice if a block reads all partial results in one step.
  static __device__ __forceinline__ Slices of(int partials, int rows) {
    const int most = most_slices(partials, rows * kQuads, kThreads);
    int rows_log2 = 0;
#pragma unroll 1
    while (rows > most << rows_log2) ++rows_log2;
    constexpr int kRoom = kRowWarps * plan::kHeadsPerBlock;  // rows that fit in the space of the warps' results
    const int groups = max(1, min((kThreads >> rows_log2) / kQuads, kRoom >> rows_log2));
    return {(rows + (1 << rows_log2) - 1) >> rows_log2, rows_log2, groups,
            groups == 1 ? partials : (partials + groups - 1) / groups};
  }
};

/// Slices that a block merges.
struct SlicesToMerge {
  uint32 own;   // the block's own slice; kNone: nothing to merge
  uint32 left;  // slices that other blocks have left to this block, a bit each

  static constexpr uint32 kNone = ~0u;
};

/// Workspace word of a sequence.
class Arrivals {
 public:
  explicit __device__ __forceinline__ Arrivals(const GqaDecodeArguments& args, const Owners& owners)
      : word_(reinterpret_cast<uint64*>(args.counters) + owners.first), blocks_(owners.count) {}

  /// Signals that the block's partial results are stored; one thread calls the function. The result is an argument of
  /// slices_to_merge(). If `is_deferred`, the merge happens much later: the atomic is only a release, so the thread
  /// does not wait for it and acquires nothing yet.
  __device__ __forceinline__ uint64 arrive(bool is_deferred) const {
    uint64 before;
    if (is_deferred) {
      asm volatile("atom.release.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(word_) : "memory");
    } else {
      asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(word_) : "memory");
    }
    return before;
  }

  /// Decides what the block merges; the thread that called arrive() calls the function. If `is_deferred`, the block
  /// does not wait for other blocks.
  __device__ __forceinline__ SlicesToMerge slices_to_merge(uint64 before, int slices, bool is_deferred) const {
    const int slice = slices - blocks_ + arrived(before);
    if (slice < 0) return {SlicesToMerge::kNone, 0};
    const auto own = static_cast<uint32>(slice);
    if (slice == slices - 1) return {own, static_cast<uint32>(before >> kLeftAt)};
    for (int i = 0; !is_deferred && i < kMostPolls; ++i) {
      if (arrived(poll()) == blocks_) return {own, 0};
    }
    if (arrived(leave_slice(own)) == blocks_) return {own, 0};
    return {SlicesToMerge::kNone, 0};
  }

  /// Records in the word that the slices of `merged` no longer wait for the last arrival; one thread calls the
  /// function. Pass the result to reset_if_last(). This atomic and the store in reset_if_last() are relaxed, which is
  /// enough: all threads see the changes of a single word in the same order.
  __device__ __forceinline__ uint64 inform(const SlicesToMerge& merged) const {
    const uint64 more = static_cast<uint64>(1 + __popc(merged.left)) << kInformedAt;
    uint64 before;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(word_), "l"(more) : "memory");
    return before + more;
  }
  /// Resets the word to zero if this block is the last to learn of the last arrival. `word` is the result of inform().
  /// With a single slice inform() is not called, and the word is always reset.
  __device__ __forceinline__ void reset_if_last(uint64 word, int slices) const {
    if (slices > 1 && static_cast<int>(word >> kInformedAt & 0xffff) != slices) return;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word_), "l"(uint64{0}) : "memory");
  }

 private:
  static constexpr int kInformedAt = 16;
  static constexpr int kLeftAt = 32;
  /// About 30 microseconds. The blocks of a launch end within 5 microseconds of one another.
  static constexpr int kMostPolls = 48;

  static __device__ __forceinline__ int arrived(uint64 word) { return static_cast<int>(word & 0xffff); }

  __device__ __forceinline__ uint64 leave_slice(uint32 slice) const {
    uint64 before;
    asm volatile("atom.acq_rel.gpu.global.or.b64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(word_), "l"(uint64{1} << kLeftAt << slice)
                 : "memory");
    return before;
  }
  __device__ __forceinline__ uint64 poll() const {
    uint64 word;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(word_) : "memory");
    return word;
  }

  uint64* word_;
  int blocks_;
};

/// Merges one slice of a sequence's query rows; all consumer warps call the function. For one query row and four
/// channels, combine_blocks(partials, row, quad) returns the Combined result of all given partial results.
template <class CombineBlocks>
__device__ __forceinline__ void merge_slice(const GqaDecodeArguments& args, const PartialResults& partials,
                                            const Heads& heads, const WarpResults& results, uint32 slice,
                                            const Slices& slices, const CombineBlocks& combine_blocks) {
  const int rows_log2 = slices.rows_log2;
  const int groups = slices.groups;
  const int first_row = static_cast<int>(slice) << rows_log2;
  const int items = kQuads << rows_log2;
  const auto thread = static_cast<int>(thread_index());
#pragma unroll 1
  for (int item = thread; item < groups * items; item += kThreads) {
    const int row_of_group = item / kQuads;  // among all groups' rows
    const int quad = item % kQuads;
    const int group = row_of_group >> rows_log2;
    const int row = first_row + row_of_group - (group << rows_log2);
    if (row >= heads.rows() || row % plan::kHeadsPerBlock >= heads_in(heads.head_group)) continue;
    const Combined combined =
        combine_blocks(partials.from(group * slices.partials_of_group, slices.partials_of_group), row, quad);
    if (groups == 1) {
      finish_row(args, heads, row, quad, combined);
      continue;
    }
    store_shared(shared_address(results.outputs + row_of_group * kMergePitch + 4 * quad), combined.output);
    if (quad == 0) results.stats[row_of_group] = make_float2(combined.reference, combined.sum);
  }
  if (groups == 1) return;
  constexpr int kGroupsAtOnce = 4;
  sync_warps();
#pragma unroll 1
  for (int item = thread; item < items; item += kThreads) {
    const int row = first_row + item / kQuads;
    const int quad = item % kQuads;
    if (row >= heads.rows() || row % plan::kHeadsPerBlock >= heads_in(heads.head_group)) continue;
    Combined result = nothing();
#pragma unroll 1
    for (int first = 0; first < groups; first += kGroupsAtOnce) {
      float2 stat[kGroupsAtOnce];
      float4 value[kGroupsAtOnce];
#pragma unroll
      for (int i = 0; i < kGroupsAtOnce; ++i) {
        stat[i] = make_float2(negative_infinity(), 0.f);
        value[i] = make_float4(0.f, 0.f, 0.f, 0.f);
        if (first + i >= groups) continue;
        const int at = (first + i << rows_log2) + item / kQuads;
        stat[i] = load_shared2(shared_address(results.stats + at));
        value[i] = load_shared4(shared_address(results.outputs + at * kMergePitch + 4 * quad));
      }
      add(result, stat, value);
    }
    finish_row(args, heads, row, quad, result);
  }
}

/// Acquires what other threads released before the values that this thread has read.
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

/// A sequence whose partial result this block has stored.
struct StoredResult {
  Owners owners;
  Heads heads;
};

/// Merges the results of the block's warps. If other blocks share the sequence, the sum goes to the workspace and the
/// block signals its arrival; otherwise it becomes the final output.
///
/// Slots: there are two per block. The even slot holds the sequence that another block has begun, and the odd slot
/// holds the sequence that begins in this block; no block has two of either kind. If `is_deferred`, the partial results
/// will be merged much later. The first thread receives the sequence's word from before the block's arrival.
__device__ __forceinline__ uint64 store_item_result(const GqaDecodeArguments& args, const StoredResult& stored,
                                                    const WarpResults& results, bool is_deferred) {
  const Owners& owners = stored.owners;
  const Heads& heads = stored.heads;
  const int block = static_cast<int>(blockIdx.x);
  const int slot = 2 * block + (block == owners.first ? 1 : 0);
#pragma unroll 1
  for (int item = thread_index(); item < heads.rows() * kQuads; item += kThreads) {
    const int row = item / kQuads;
    const int quad = item % kQuads;
    if (row % plan::kHeadsPerBlock >= heads_in(heads.head_group)) continue;
    const Combined combined = combine_warps(results, heads, row, quad);
    if (owners.count == 1) {
      finish_row(args, heads, row, quad, combined);
    } else {
      store_partial(args, heads, slot, row, quad, combined);
    }
  }
  sync_warps();  // all warps' results have been read, and the sums stored
  return owners.count > 1 && thread_index() == 0 ? Arrivals(args, owners).arrive(is_deferred) : 0;
}

/// Merges the partial results of all blocks; each of the last blocks to arrive merges a slice. `before` is what
/// store_item_result has returned for this work item, and `is_deferred` is the value that was passed to
/// store_item_result. A block that merges at once may wait for others. A block that merges late never waits; it arrived
/// with a release only, so it acquires here. The consumer warps synchronise before and after this function.
template <class CombineBlocks>
__device__ __forceinline__ void merge_partials(const GqaDecodeArguments& args, const StoredResult& stored,
                                               uint64 before, const WarpResults& results, bool is_deferred,
                                               const CombineBlocks& combine_blocks) {
  const Owners& owners = stored.owners;
  const Slices slices = Slices::of(owners.count, stored.heads.rows());
  const Arrivals arrivals(args, owners);
  // The addresses are settled, so that they are ready when the block learns what it merges.
  PartialResults partials = partials_in(args, {owners.count, 2 * owners.first, 1, 2}, stored.heads);
  partials.outputs = settled(partials.outputs);
  partials.stats = settled(partials.stats);
  volatile uint32* const published = results.arrived;
  if (thread_index() == 0) {
    const SlicesToMerge merged = arrivals.slices_to_merge(before, slices.count, is_deferred);
    if (is_deferred && merged.own != SlicesToMerge::kNone) fence_gpu();
    published[0] = merged.own;
    published[1] = merged.left;
  }
  sync_warps();
  SlicesToMerge merged = {published[0], published[1]};
  if (merged.own == SlicesToMerge::kNone) return;
  const bool is_last_thread = thread_index() == kThreads - 1;
  uint64 word = 0;
  if (is_last_thread && slices.count > 1) word = arrivals.inform(merged);
#pragma unroll 1
  while (true) {
    merge_slice(args, partials, stored.heads, results, merged.own, slices, combine_blocks);
    if (merged.left == 0) break;
    merged.own = __ffs(static_cast<int>(merged.left)) - 1;
    merged.left &= merged.left - 1;
    sync_warps();  // the results of the previous slice have been read
  }
  if (is_last_thread) arrivals.reset_if_last(word, slices.count);
}

}  // namespace cubit
