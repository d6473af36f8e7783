// Merging the partial results of a sequence by several of its blocks: each takes a slice, some of the rows of heads.
//
// One block reads 64 bytes per cycle from the L2 however many loads it has under way; where there is much to read, the
// blocks of a sequence that arrive last merge it together, the last S of them in the order in which they arrive. All
// but the last one wait for it. They need not be resident at once: a block waits so long only, or not at all if it has
// something else to do, and then leaves its slice to the last block.
//
// All this is in one word of the workspace per sequence, of the block in which it begins, so that it is either before
// the last block's arrival that a slice is left, and the last block knows of it, or after it, and then it is merged by
// its own block:
//
//   | slices left, a bit each (32) | blocks that know of the last arrival (16) | blocks that have arrived (16) |
//
// The last to know of it sets the word back to zero. Parts are read in the order of their blocks whoever merges them,
// so results do not depend on it.
//
// PTX ISA, "Memory Consistency Model": bar.sync orders a block's stores before its atom.acq_rel, whose observation by
// another block's atom.acq_rel or ld.acquire orders them before that block's loads behind its bar.sync.
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "pipeline/balanced_schedule.cuh"

namespace cubit {

/// How the rows of a sequence are divided among those that merge them: `count` slices of 2^rows_log2; and in a block
/// among groups of threads that have the same rows, each with so many parts.
struct Slices {
  int count;
  int rows_log2;
  int groups;
  int parts_of_group;

  /// One, where a block reads all parts in one step.
  static __device__ __forceinline__ Slices of(int parts, int rows) {
    const int most = most_slices(parts, rows * kQuads, kThreads);
    int rows_log2 = 0;
#pragma unroll 1
    while (rows > most << rows_log2) ++rows_log2;
    constexpr int kRoom = kRowWarps * plan::kHeadsPerBlock;  // rows of results
    const int groups = max(1, min((kThreads >> rows_log2) / kQuads, kRoom >> rows_log2));
    return {(rows + (1 << rows_log2) - 1) >> rows_log2, rows_log2, groups,
            groups == 1 ? parts : (parts + groups - 1) / groups};
  }
};

/// What a block merges of a sequence.
struct SlicesToMerge {
  uint32 own;   // a slice; kNone: nothing
  uint32 left;  // and those that others have left to it, a bit each

  static constexpr uint32 kNone = ~0u;
};

/// The word of a sequence.
class Arrivals {
 public:
  explicit __device__ __forceinline__ Arrivals(const GqaDecodeArguments& args, const Owners& owners)
      : word_(reinterpret_cast<uint64*>(args.counters) + owners.first), blocks_(owners.count) {}

  /// By one thread, when the block's results are stored. What it returns is for slices_to_merge(). `is_late`: that
  /// comes much later, so the thread does not wait for it; it acquires nothing yet.
  __device__ __forceinline__ uint64 arrive(bool is_late) const {
    uint64 before;
    if (is_late) {
      asm volatile("atom.release.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(word_) : "memory");
    } else {
      asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(word_) : "memory");
    }
    return before;
  }

  /// By that thread. `is_late`: then others are not waited for.
  __device__ __forceinline__ SlicesToMerge slices_to_merge(uint64 before, int slices, bool is_late) const {
    const int slice = slices - blocks_ + arrived(before);
    if (slice < 0) return {SlicesToMerge::kNone, 0};
    const auto own = static_cast<uint32>(slice);
    if (slice == slices - 1) return {own, static_cast<uint32>(before >> kLeftAt)};
    for (int i = 0; !is_late && i < kMostLooks; ++i) {
      if (arrived(look()) == blocks_) return {own, 0};
    }
    if (arrived(leave(own)) == blocks_) return {own, 0};
    return {SlicesToMerge::kNone, 0};
  }

  /// By one thread: so many slices will not be waited for any more. What it returns is for forget(). Relaxed, as what
  /// follows is: of one word all see the same order.
  __device__ __forceinline__ uint64 know(const SlicesToMerge& merged) const {
    const uint64 more = static_cast<uint64>(1 + __popc(merged.left)) << kKnowAt;
    uint64 before;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(word_), "l"(more) : "memory");
    return before + more;
  }
  /// The last one to know sets the word back to zero. Of one slice there is nothing to know.
  __device__ __forceinline__ void forget(uint64 word, int slices) const {
    if (slices > 1 && static_cast<int>(word >> kKnowAt & 0xffff) != slices) return;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word_), "l"(uint64{0}) : "memory");
  }

 private:
  static constexpr int kKnowAt = 16;
  static constexpr int kLeftAt = 32;
  /// About 30 microseconds, where the blocks of a launch end within 5 of one another.
  static constexpr int kMostLooks = 48;

  static __device__ __forceinline__ int arrived(uint64 word) { return static_cast<int>(word & 0xffff); }

  __device__ __forceinline__ uint64 leave(uint32 slice) const {
    uint64 before;
    asm volatile("atom.acq_rel.gpu.global.or.b64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(word_), "l"(uint64{1} << kLeftAt << slice)
                 : "memory");
    return before;
  }
  __device__ __forceinline__ uint64 look() const {
    uint64 word;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(word_) : "memory");
    return word;
  }

  uint64* word_;
  int blocks_;
};

/// Of the parts of a sequence, by all warps that attend.
template <class CombineBlocks>
__device__ __forceinline__ void merge_slice(const GqaDecodeArguments& args, const Parts& parts, const Heads& heads,
                                            const WarpResults& results, uint32 slice, const Slices& slices,
                                            const CombineBlocks& combine_blocks) {
  const int rows_log2 = slices.rows_log2;
  const int groups = slices.groups;
  const int first_row = static_cast<int>(slice) << rows_log2;
  const int items = kQuads << rows_log2;
  const auto thread = static_cast<int>(thread_index());
#pragma unroll 1
  for (int item = thread; item < groups * items; item += kThreads) {
    const int row_of_group = item / kQuads;  // of all groups' rows
    const int quad = item % kQuads;
    const int group = row_of_group >> rows_log2;
    const int row = first_row + row_of_group - (group << rows_log2);
    if (row >= heads.rows() || row % plan::kHeadsPerBlock >= heads_in(heads.head_group)) continue;
    const Combined combined =
        combine_blocks(parts.from(group * slices.parts_of_group, slices.parts_of_group), row, quad);
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

/// What others have released to this thread, by what it has read before, it acquires.
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

/// A sequence of which a block has stored its part.
struct StoredPart {
  Owners owners;
  Heads heads;
};

/// Merges the warps' results; where other blocks have parts of the sequence, into the workspace, and tells them. Slots:
/// two per block; of a sequence that others have begun a block takes the even one, of one that begins in it the odd
/// one, so that no block has two of either. `is_late`: the parts will be merged much later. Returns, to the first
/// thread, the word before the block's arrival.
__device__ __forceinline__ uint64 store_part(const GqaDecodeArguments& args, const StoredPart& part,
                                             const WarpResults& results, bool is_late) {
  const Owners& owners = part.owners;
  const Heads& heads = part.heads;
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
  sync_warps();  // the results are read, and stored
  return owners.count > 1 && thread_index() == 0 ? Arrivals(args, owners).arrive(is_late) : 0;
}

/// Merges the parts of all blocks, a slice by each of the last to arrive. `before` and `is_late`: what store_part has
/// returned for this part, and what it was called with. A block that merges at once may wait for others; one that
/// merges late does not, and has arrived with a release alone, so it acquires here. The warps that attend meet before
/// this and behind.
template <class CombineBlocks>
__device__ __forceinline__ void merge_parts(const GqaDecodeArguments& args, const StoredPart& part, uint64 before,
                                            const WarpResults& results, bool is_late,
                                            const CombineBlocks& combine_blocks) {
  const Owners& owners = part.owners;
  const Slices slices = Slices::of(owners.count, part.heads.rows());
  const Arrivals arrivals(args, owners);
  // Settled, so that they are there when the block hears what it merges.
  Parts parts = parts_of(args, {owners.count, 2 * owners.first, 1, 2}, part.heads);
  parts.outputs = settled(parts.outputs);
  parts.stats = settled(parts.stats);
  volatile uint32* const told = results.arrived;
  if (thread_index() == 0) {
    const SlicesToMerge merged = arrivals.slices_to_merge(before, slices.count, is_late);
    if (is_late && merged.own != SlicesToMerge::kNone) fence_gpu();
    told[0] = merged.own;
    told[1] = merged.left;
  }
  sync_warps();
  SlicesToMerge merged = {told[0], told[1]};
  if (merged.own == SlicesToMerge::kNone) return;
  const bool is_last_thread = thread_index() == kThreads - 1;
  uint64 word = 0;
  if (is_last_thread && slices.count > 1) word = arrivals.know(merged);
#pragma unroll 1
  while (true) {
    merge_slice(args, parts, part.heads, results, merged.own, slices, combine_blocks);
    if (merged.left == 0) break;
    merged.own = __ffs(static_cast<int>(merged.left)) - 1;
    merged.left &= merged.left - 1;
    sync_warps();  // the results of the slice before are read
  }
  if (is_last_thread) arrivals.forget(word, slices.count);
}

}  // namespace cubit
