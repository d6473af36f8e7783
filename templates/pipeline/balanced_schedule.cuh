// Tile scheduler of the sm_90 attention kernel: every block takes one contiguous, balanced share of the stages of all
// sequences; see balanced_schedule.h.
//
// The blocks that share a sequence follow by arithmetic from the sequence's position in the row of units. A block
// finishes at most one sequence that another block has begun, and begins at most one sequence that another block
// finishes. Two slots of partial results per block are therefore enough for any batch.
#pragma once

#include "attention/sequence_length.cuh"
#include "core/divide_by.h"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/balanced_schedule.h"

namespace cubit {

/// Work item: a block's stages of one sequence.
struct WorkItem {
  int batch;   // -1: no work item is left
  int head;    // span · head groups + head group
  int length;  // tokens of the sequence
  int first;   // index of the first visited stage
  int last;    // one past the last; equal to `first` if the sequence has fewer stages than splits
};

/// Blocks that share a sequence: the block in which the sequence begins, and the number of blocks.
struct Owners {
  int first;
  int count;
};

/// Inclusive prefix sum over the lanes of a warp.
__device__ __forceinline__ int sum_over_lanes(int value) {
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int other = __shfl_up_sync(kFullWarp, value, distance);
    if (lane_index() >= distance) value += other;
  }
  return value;
}

/// Prefetches the first 1024 lengths. The block's first warp calls the function before anything else, because lengths
/// are what the block waits for first. The prefetch goes to the L2 only: another kernel may still be writing the
/// lengths.
__device__ __forceinline__ void prefetch_lengths(const GqaDecodeArguments& args) {
  const int first = kWarpSize * static_cast<int>(thread_index());
  if (thread_index() >= kWarpSize || args.lengths == nullptr || first >= args.batch) return;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(args.lengths + first));
}

/// Position of the tile scheduler between two of a block's work items.
struct SchedulerPosition {
  int next;   // unit
  int end;    // one past the block's last unit
  int batch;  // batch entry of the sequence that contains `next`
  int head;
  int start;  // first unit of that sequence, including its overhead units
  // The sequence of the previous work item:
  int last_start;  // its first unit
  int last_units;
};

/// Tile scheduler over a block's work items. Each warp that runs the scheduler runs its own copy, with the same state
/// in all lanes. count_stages returns the number of stages of a sequence with a given number of tokens.
template <int kItemOverhead, int kSequenceOverhead, int (*count_stages)(const GqaDecodeArguments&, int)>
class TileScheduler {
 public:
  explicit __device__ __forceinline__ TileScheduler(const GqaDecodeArguments& args) : args_(args) {}

  /// Returns the block's first work item, with the same conventions as next().
  __device__ __forceinline__ WorkItem begin(SchedulerPosition& position) {
    if (args_.lengths == nullptr) return begin_uniform(position);
    position = args_.division.parts > 0 ? known_position() : divide_lengths();
    return next(position);
  }

  /// Number of blocks that have a share. Valid after begin().
  __device__ __forceinline__ int blocks() const { return division_.blocks; }

  /// True if every sequence belongs to exactly two neighbouring blocks that have no other work, so that the two can be
  /// a cluster. Valid after begin().
  __device__ __forceinline__ bool every_sequence_has_two_blocks() const {
    return division_.parts == 2 && division_.quotient == 1 && division_.remainder == 0;
  }

  /// Returns the next work item. If none is left, the returned item has batch -1.
  __device__ __forceinline__ WorkItem next(SchedulerPosition& position) const {
    const int parts = division_.parts;
    WorkItem item = {};
#pragma unroll 1
    while (position.next < position.end) {
      item.batch = position.batch;
      item.head = position.head;
      item.length = length_of(args_, position.batch);
      const int stages = count_stages(args_, item.length);
      const int units = parts > 0 ? parts : stages;
      const int start = position.start + sequence_overhead_;
      const int first = max(position.next - start, 0);
      const int last = min(position.end - start, units);
      advance_past(position, start, units);
      if (first >= last) continue;  // the block's share ends within the sequence's overhead units
      item.first = first;
      item.last = last;
      if (parts > 0) to_stages(item, stages, parts);
      return item;
    }
    item.batch = -1;
    return item;
  }

  /// Blocks that share the sequence of the last work item. The function divides only if the sequence begins or ends in
  /// another block.
  __device__ __forceinline__ Owners owners_of_last(const SchedulerPosition& position) const {
    const int block = static_cast<int>(blockIdx.x);
    const int last = position.last_start + position.last_units - 1;
    const int first_owner = position.last_start >= first_position().next ? block : owner_of(position.last_start);
    const int last_owner = last < position.end ? block : owner_of(last);
    return {first_owner, last_owner - first_owner + 1};
  }

 private:
  /// Fast path for equal lengths, with values that the host has computed. The path takes a third of the instructions of
  /// next(), which the block's first copies would wait for.
  __device__ __forceinline__ WorkItem begin_uniform(SchedulerPosition& position) {
    position = known_position();
    const int units = static_cast<int>(args_.units.divisor);
    const auto stage_of_unit = [this](int unit) { return unit * args_.unit_stages + min(unit, args_.larger_units); };
    const WorkItem item = {position.next < position.end ? position.batch : -1, position.head, args_.max_length,
                           stage_of_unit(position.next - position.start),
                           stage_of_unit(min(position.end - position.start, units))};
    advance_past(position, position.start, units);
    return item;
  }

  /// Initial position when the host has computed the division; the counterpart of divide_lengths().
  __device__ __forceinline__ SchedulerPosition known_position() {
    division_ = args_.division;
    SchedulerPosition position = first_position();
    const int sequence = static_cast<int>(quotient(position.next, args_.units));
    position.start = sequence * static_cast<int>(args_.units.divisor);
    set_sequence(position, sequence);
    return position;
  }

  /// Advances behind the sequence that has `units` units from `start` on.
  __device__ __forceinline__ void advance_past(SchedulerPosition& position, int start, int units) const {
    position.last_start = start;
    position.last_units = units;
    position.start = position.next = start + units;
    if (++position.head < heads_per_batch()) return;
    position.head = 0;
    ++position.batch;
  }

  __device__ __forceinline__ int heads_per_batch() const { return static_cast<int>(args_.heads.divisor); }

  __device__ __forceinline__ int stages_in(int batch) const { return count_stages(args_, length_of(args_, batch)); }

  /// Converts an item's range from units, of which the sequence has `parts`, to the stages at which the units begin.
  __device__ __forceinline__ void to_stages(WorkItem& item, int stages, int parts) const {
    const int least = args_.division.parts > 0 ? static_cast<int>(quotient(stages, args_.units)) : stages / parts;
    const int rest = stages - least * parts;
    item.first = item.first * least + min(item.first, rest);
    item.last = item.last * least + min(item.last, rest);
  }

  __device__ __forceinline__ int owner_of(int unit) const {
    const int larger = division_.remainder * (division_.quotient + 1);  // units of the blocks that have one unit more
    if (unit < larger) return unit / (division_.quotient + 1);
    return division_.remainder + (unit - larger) / division_.quotient;
  }

  __device__ __forceinline__ void set_sequence(SchedulerPosition& position, int sequence) const {
    position.batch = static_cast<int>(quotient(sequence, args_.heads));
    position.head = sequence - position.batch * heads_per_batch();
  }

  __device__ __forceinline__ SchedulerPosition first_position() const {
    const int block = static_cast<int>(blockIdx.x);
    SchedulerPosition position = {};
    if (block >= division_.blocks) return position;
    position.next = block * division_.quotient + min(block, division_.remainder);
    position.end = position.next + division_.quotient + (block < division_.remainder ? 1 : 0);
    return position;
  }

  /// Reads every length and computes the division. Each lane reads the lengths of neighbouring batch entries.
  __device__ __forceinline__ SchedulerPosition divide_lengths() {
    const int each = (args_.batch + kWarpSize - 1) / kWarpSize;
    const int first = lane_index() * each;
    int sum = 0;
    uint32 longest = 1;
#pragma unroll 4
    for (int i = 0; i < each; ++i) {
      if (first + i >= args_.batch) continue;
      const int stages = stages_in(first + i);
      sum += stages;
      longest = max(longest, static_cast<uint32>(stages));
    }
    longest = __reduce_max_sync(kFullWarp, longest);
    const int up_to = sum_over_lanes(sum);
    const int heads = heads_per_batch();
    const int total = __shfl_sync(kFullWarp, up_to, kWarpSize - 1) * heads;
    division_ = divide({args_.batch * heads, total, static_cast<int>(longest)}, static_cast<int>(gridDim.x),
                       kItemOverhead, kSequenceOverhead, args_.blocks_each,
                       [this](int x) { return static_cast<int>(quotient(x, args_.units)); });
    SchedulerPosition position = first_position();
    if (division_.parts > 0) {
      const int sequence = position.next / division_.parts;
      position.start = sequence * division_.parts;
      set_sequence(position, sequence);
      return position;
    }
    sequence_overhead_ = kSequenceOverhead;
    if (position.next < position.end) find(position, each, up_to - sum);
    return position;
  }

  /// Finds the sequence in which the block's share begins. `each` is the number of batch entries per lane; `before` is
  /// the number of stages of the lanes before this one, for one head.
  __device__ __forceinline__ void find(SchedulerPosition& position, int each, int before) const {
    const int heads = heads_per_batch();
    const int lanes_start = heads * (before + sequence_overhead_ * min(lane_index() * each, args_.batch));
    const int lane = last_lane_of(lanes_start <= position.next);
    position.start = __shfl_sync(kFullWarp, lanes_start, lane);
    int units = 0;
    int first = lane * each;
#pragma unroll 1
    while (true) {
      const int batch = first + lane_index();
      units = batch < args_.batch ? heads * (stages_in(batch) + sequence_overhead_) : 0;
      const int up_to = sum_over_lanes(units);
      const int start = position.start + up_to - units;
      const int total = __shfl_sync(kFullWarp, up_to, kWarpSize - 1);
      if (position.next >= position.start + total) {
        position.start += total;
        first += kWarpSize;
        continue;
      }
      const int found = last_lane_of(batch < args_.batch && start <= position.next);
      position.batch = first + found;
      position.start = __shfl_sync(kFullWarp, start, found);
      units = __shfl_sync(kFullWarp, units, found);
      break;
    }
    if (heads == 1) return;
    units /= heads;
    position.head = (position.next - position.start) / units;
    position.start += position.head * units;
  }

  /// The last lane whose predicate is true; at least one lane's predicate must be true.
  static __device__ __forceinline__ int last_lane_of(bool is_true) {
    return kWarpSize - 1 - __clz(static_cast<int>(__ballot_sync(kFullWarp, is_true)));
  }

  const GqaDecodeArguments& args_;
  Division division_ = {};
  int sequence_overhead_ = 0;  // units before each sequence that stand for its overhead
};

}  // namespace cubit
