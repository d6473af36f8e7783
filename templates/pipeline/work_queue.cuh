// Shared state of the sm_90 attention pipeline: the mbarriers of its stages, and the work queue between producer and
// consumer warps.
//
// The first producer thread runs the tile scheduler and publishes each work item as a queue entry. All consumer warps
// receive every entry. Stages and queue entries each have a full and an empty mbarrier. Who waits for whom is described
// in sm90_gqa_decode.cuh.
//
// PTX ISA: "mbarrier".
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "core/bulk_copies.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/balanced_schedule.cuh"
#include "pipeline/merge_slices.cuh"
#include "pipeline/producer_stage.cuh"
#include "pipeline/stage_ring.cuh"
#include "pipeline/two_cta_cluster.cuh"

namespace cubit {

using Scheduler = TileScheduler<plan::kSegmentEndStages, plan::kSequenceOverheadStages, count_stages>;

/// Work queue entry: a work item as the producer publishes it. An entry has eight words, so that two 16-byte vectors
/// without padding copy it.
struct alignas(16) QueueEntry {
  WorkItem item;
  Owners owners;  // blocks that share the item's sequence
  int kv_head;    // first KV head of the item's span
};

/// State of a block in shared memory, at kScratchAt.
struct BlockState {
  QueueEntry queue[plan::kSegments];
  StoredResult stored[2];  // of the current and of the previous work item; the previous one is merged when the current
                           // results are stored
  // True if every sequence belongs to a 2-CTA cluster (cluster_merge.cuh) and this block has half of one. The grid may
  // be larger. Blocks without a share exit at once, and from then on no other block may access their shared memory.
  int merges_in_cluster;
};
static_assert(sizeof(BlockState) <= plan::kScratchBytes);

/// Whether this block merges through its cluster. Valid after the block-wide barrier. The flag is read from shared
/// memory at each use, because the main loop has no register left for it.
__device__ __forceinline__ bool merges_in_cluster(const BlockState& state) {
  return plan::kMergesInCluster && state.merges_in_cluster != 0;
}

using StagePlace = RingPlace<plan::kStages>;

/// Counterpart of RingPlace for the work queue, in one register.
struct QueuePlace {
  uint32 count = 0;

  __device__ __forceinline__ uint32 index() const { return count % plan::kSegments; }
  __device__ __forceinline__ uint32 parity() const { return count / plan::kSegments & 1; }
  __device__ __forceinline__ void advance() { ++count; }
  static_assert((plan::kSegments & (plan::kSegments - 1)) == 0, "queue indices wrap around");
};

/// Shared-memory addresses of the stages and of the mbarriers. The barriers of the work queue follow the barriers of
/// the stages.
struct Rings : StageRing<kStageBytes, plan::kBarriersAt, 16> {
  __device__ __forceinline__ uint32 queue_full(QueuePlace place) const {
    return barriers(plan::kStages + place.index());
  }
  __device__ __forceinline__ uint32 queue_empty(QueuePlace place) const {
    return barriers(plan::kStages + place.index()) + 8;
  }
  __device__ __forceinline__ ClusterBarriers of_cluster() const {
    const uint32 both = barriers(plan::kStages + plan::kSegments);
    return {both, both + 8};
  }

  /// Initialises all mbarriers. One thread calls the function, so that the same thread can start the first copies at
  /// once; with several threads, each would have to wait for the other threads' mbarriers.
  __device__ __forceinline__ void init_barriers() const {
#pragma unroll
    for (int index = 0; index < plan::kStages + plan::kSegments; ++index) {
      init_barrier(barriers(index), index < plan::kStages ? kCopyThreads : 1);
      init_barrier(barriers(index) + 8, plan::kWarps);
    }
    if constexpr (plan::kMergesInCluster) of_cluster().init();
    fence_barrier_init();
  }
};

/// Publishes a work item, or the end of the work; the first producer thread calls the function.
__device__ __forceinline__ void publish_work_item(const Arguments& args, const Scheduler& scheduler,
                                                  const SchedulerPosition& position, const WorkItem& item,
                                                  QueueEntry (&queue)[plan::kSegments], QueuePlace place, Rings rings) {
  wait_barrier(rings.queue_empty(place), place.parity() ^ 1);  // returns at once in the first round
  const bool is_one = item.batch >= 0;
  queue[place.index()] = {item, is_one ? scheduler.owners_of_last(position) : Owners{}, first_kv_head(args, item)};
  arrive(rings.queue_full(place));
}

}  // namespace cubit
