// Work split: every block takes an even share of all sequences' stages, in one piece; see even_share.h.
//
// Which blocks a sequence has follows from its place among the units by arithmetic. A block holds at most one sequence's
// end that others have begun, and at most one's beginning that others end: two slots of partial results per block are
// enough, whatever the batch (and two for what it has merged of a group of blocks).
#pragma once

#include "divide_by.h"
#include "even_share.h"
#include "gqa_decode_arguments.h"
#include "split_kv.cuh"
#include "types.cuh"

namespace cubit {

/// A block's stages of one sequence.
struct Segment {
  int batch;   // -1: there is none
  int head;    // span · head groups + head group
  int length;  // tokens of the sequence
  int first;   // stage
  int last;    // one past; the same where a sequence has fewer stages than parts
  int start;   // the sequence's first unit
  int units;   // of the sequence
};

/// A sequence without tokens still has a stage, so that somebody stores its zeros.
__device__ __forceinline__ int stages_of(int length, int stage_tokens_log2) {
  return max(1, (length + (1 << stage_tokens_log2) - 1) >> stage_tokens_log2);
}

/// The sum over the threads before this one and over all, of a value per thread. All threads of the block call it.
struct BlockSum {
  uint32 before;
  uint32 total;
};
template <int kWarps>
__device__ __forceinline__ BlockSum sum_over_block(uint32 value, uint32* scratch) {
  const uint32 lane = thread_index() % kWarpSize;
  const uint32 warp = thread_index() / kWarpSize;
  uint32 sum = value;
#pragma unroll
  for (uint32 distance = 1; distance < kWarpSize; distance *= 2) {
    const uint32 other = __shfl_up_sync(kFullWarp, sum, distance);
    if (lane >= distance) sum += other;
  }
  __syncthreads();  // nobody still reads what was there
  if (lane == kWarpSize - 1) scratch[warp] = sum;
  __syncthreads();
  BlockSum result{sum - value, 0};
#pragma unroll
  for (uint32 i = 0; i < kWarps; ++i) {
    const uint32 of_warp = scratch[i];
    if (i < warp) result.before += of_warp;
    result.total += of_warp;
  }
  return result;
}

/// A place between a block's segments.
struct Cursor {
  int next;   // unit
  int end;    // one past the block's last
  int batch;  // of the sequence that next is in
  int head;
  int start;  // where its gap begins
};

/// What the walk needs in shared memory while the block lasts.
template <int kWarps>
struct ShareScratch {
  uint32 sums[kWarps];
  uint32 peaks[kWarps];
  Division division;  // where the kernel itself has made it
  int gap;            // units before each sequence
  int found[2];       // the batch entry in which the share begins, and that entry's first unit
};

/// Walks over a block's segments. kWarps: all of the block's.
template <int kWarps, int kFlushStages>
class Walker {
 public:
  using Scratch = ShareScratch<kWarps>;

  __device__ __forceinline__ Walker(const GqaDecodeArguments& args, Scratch& scratch)
      : args_(args), scratch_(scratch) {}

  /// Before the block's first segment. All threads of the block call it.
  __device__ __forceinline__ Cursor begin() const {
    if (is_known()) {
      Cursor cursor = place(args_.division);
      const int sequence = static_cast<int>(quotient(cursor.next, args_.units));
      cursor.start = sequence * units_per_sequence();
      set_sequence(cursor, sequence);
      return cursor;
    }
    divide_lengths();
    Cursor cursor = place(scratch_.division);
    find(cursor);
    return cursor;
  }

  /// The segment after it; if there is none left, one without a batch entry.
  __device__ __forceinline__ Segment next(Cursor& cursor) const {
    const int parts = is_known() ? args_.division.parts : scratch_.division.parts;
    const int gap = is_known() ? 0 : scratch_.gap;
    Segment segment = {};
#pragma unroll 1
    while (cursor.next < cursor.end) {
      segment.batch = cursor.batch;
      segment.head = cursor.head;
      segment.length = length_of(args_, cursor.batch);
      const int stages = stages_of(segment.length, args_.stage_tokens_log2);
      segment.units = parts > 0 ? parts : stages;
      segment.start = cursor.start + gap;
      const int first = max(cursor.next - segment.start, 0);
      const int last = min(cursor.end - segment.start, segment.units);
      cursor.start = cursor.next = segment.start + segment.units;
      if (++cursor.head == heads_per_batch()) {
        cursor.head = 0;
        ++cursor.batch;
      }
      if (first >= last) continue;  // the block's share ends in the gap
      segment.first = stage_at(first, stages, parts);
      segment.last = stage_at(last, stages, parts);
      return segment;
    }
    segment.batch = -1;
    return segment;
  }

  /// The block in which a segment's sequence begins, and how many it has.
  struct Owners {
    int first;
    int count;
  };
  __device__ __forceinline__ Owners owners_of(const Segment& segment) const {
    const Division division = is_known() ? args_.division : scratch_.division;
    const int first = owner_of(segment.start, division);
    return {first, owner_of(segment.start + segment.units - 1, division) - first + 1};
  }

 private:
  /// Whether the host has made the division.
  __device__ __forceinline__ bool is_known() const { return args_.lengths == nullptr || args_.division.parts > 0; }

  __device__ __forceinline__ int heads_per_batch() const { return static_cast<int>(args_.heads.divisor); }
  __device__ __forceinline__ int units_per_sequence() const { return static_cast<int>(args_.units.divisor); }

  __device__ __forceinline__ int stages_in(int batch) const {
    return stages_of(length_of(args_, batch), args_.stage_tokens_log2);
  }

  /// The stage at which a sequence's unit begins.
  static __device__ __forceinline__ int stage_at(int unit, int stages, int parts) {
    if (parts == 0 || unit == 0) return unit;
    if (unit == parts) return stages;
    const int least = stages / parts;
    return unit * least + min(unit, stages - least * parts);
  }

  static __device__ __forceinline__ int owner_of(int unit, const Division& division) {
    const int larger = division.remainder * (division.quotient + 1);  // units of the blocks that have one more
    if (unit < larger) return unit / (division.quotient + 1);
    return division.remainder + (unit - larger) / division.quotient;
  }

  __device__ __forceinline__ void set_sequence(Cursor& cursor, int sequence) const {
    cursor.batch = static_cast<int>(quotient(sequence, args_.heads));
    cursor.head = sequence - cursor.batch * heads_per_batch();
  }

  static __device__ __forceinline__ Cursor place(const Division& division) {
    const int block = static_cast<int>(blockIdx.x);
    Cursor cursor = {};
    if (block >= division.blocks) return cursor;
    cursor.next = block * division.quotient + min(block, division.remainder);
    cursor.end = cursor.next + division.quotient + (block < division.remainder ? 1 : 0);
    return cursor;
  }

  /// Every length is read; the division follows.
  __device__ __forceinline__ void divide_lengths() const {
    uint32 sum = 0;
    uint32 longest = 1;
#pragma unroll 1
    for (int batch = static_cast<int>(threadIdx.x); batch < args_.batch; batch += kWarps * kWarpSize) {
      const uint32 stages = stages_in(batch);
      sum += stages;
      longest = max(longest, stages);
    }
    longest = __reduce_max_sync(kFullWarp, longest);
    sum = __reduce_add_sync(kFullWarp, sum);
    if (thread_index() % kWarpSize == 0) {
      scratch_.sums[thread_index() / kWarpSize] = sum;
      scratch_.peaks[thread_index() / kWarpSize] = longest;
    }
    __syncthreads();
    if (thread_index() == 0) {
      sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        sum += scratch_.sums[warp];
        longest = max(longest, scratch_.peaks[warp]);
      }
      const int heads = heads_per_batch();
      const Division division = divide({args_.batch * heads, static_cast<int>(sum) * heads, static_cast<int>(longest)},
                                       static_cast<int>(gridDim.x), kFlushStages, kFlushStages);
      scratch_.division = division;
      scratch_.gap = division.parts == 0 ? kFlushStages : 0;
    }
    __syncthreads();
  }

  /// The sequence in which the block's share begins.
  __device__ __forceinline__ void find(Cursor& cursor) const {
    if (cursor.next >= cursor.end) return;  // the same for the whole block
    const int parts = scratch_.division.parts;
    const int gap = scratch_.gap;
    if (parts > 0) {
      const int sequence = cursor.next / parts;
      cursor.start = sequence * parts;
      set_sequence(cursor, sequence);
      return;
    }
    const int heads = heads_per_batch();
    uint32 before = 0;
#pragma unroll 1
    for (int first = 0; first < args_.batch; first += kWarps * kWarpSize) {
      const int batch = first + static_cast<int>(threadIdx.x);
      uint32 units = 0;
      if (batch < args_.batch) units = heads * (stages_in(batch) + gap);
      const BlockSum sum = sum_over_block<kWarps>(units, scratch_.sums);
      const uint32 start = before + sum.before;
      if (static_cast<uint32>(cursor.next) >= start && static_cast<uint32>(cursor.next) < start + units) {
        scratch_.found[0] = batch;
        scratch_.found[1] = static_cast<int>(start);
      }
      before += sum.total;
      if (static_cast<uint32>(cursor.next) < before) break;
    }
    __syncthreads();
    cursor.batch = scratch_.found[0];
    cursor.start = scratch_.found[1];
    if (heads == 1) return;
    const int units = stages_in(cursor.batch) + gap;
    cursor.head = (cursor.next - cursor.start) / units;
    cursor.start += cursor.head * units;
  }

  const GqaDecodeArguments& args_;
  Scratch& scratch_;
};

}  // namespace cubit
