// Producer warps of the sm_90 attention kernel: run the tile scheduler, publish work items, and copy the stages of each
// item by TMA or by vectors.
//
// Who waits for whom is described in sm90_gqa_decode.cuh; the copies themselves are in tma_producer.cuh and
// vector_copy_producer.cuh.
//
// PTX ISA: "cp.async.bulk.tensor", "cp.async", "mbarrier", "setmaxnreg", "barrier.cluster".
#pragma once

#include "core/bulk_copies.cuh"
#include "core/cluster.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "pipeline/balanced_schedule.cuh"
#include "pipeline/copy_pacing.cuh"
#include "pipeline/producer_stage.cuh"
#include "pipeline/tma_producer.cuh"
#include "pipeline/two_cta_cluster.cuh"
#include "pipeline/vector_copy_producer.cuh"
#include "pipeline/work_queue.cuh"

namespace cubit {

/// The first producer thread; it initialises the mbarriers and issues the box copies.
__device__ __forceinline__ bool is_first_producer_thread() { return threadIdx.x == plan::kWarps * kWarpSize; }

/// Issues the box copies of the block's very first stage, because a block waits longest for that stage. The first
/// producer thread calls the function before other threads see the mbarriers. The function does nothing if the stage is
/// copied by vectors, or by boxes of pages, which all producer warps issue.
__device__ __forceinline__ void begin_first_stage(const Arguments& args, const WorkItem& item, Rings rings) {
  if (plan::Cache::kIsPaged || item.batch < 0 || item.first == item.last) return;
  const int stage = StageIterator(args, item).stage();
  if (!is_copied_by_tma(args, tokens_in(args, item, stage))) return;
  const StagePlace place;
  copy_boxes(args, item, stage, rings.stage(place), rings.full(place));
}

/// Copies a stage by TMA; all producer warps call the function when the stage is empty. `is_in_flight` says that
/// begin_first_stage has already issued the copies.
__device__ __forceinline__ void copy_stage_by_tma(const Arguments& args, const WorkItem& item, int stage,
                                                  StagePlace place, bool is_in_flight, PageWindow& pages, Rings rings) {
  const uint32 full = rings.full(place);
  // Every warp arrives, so that no warp falls two rounds behind and mistakes a later phase for the current one.
  __syncwarp();
  if (!is_first_producer_thread()) {
    if (lane_index() == 0) arrive(full, kWarpSize);
  } else {
    arrive(full, kWarpSize - 1);
    if (plan::Cache::kIsPaged) {
      expect_bytes(full, 2 * kHalfStage);
    } else if (!is_in_flight) {
      fence_async_proxy();  // orders earlier cp.async writes to the stage before the box copies
      copy_boxes(args, item, stage, rings.stage(place), full);
    }
  }
  if (plan::Cache::kIsPaged) {
    // The fence has the same purpose here. If only an item's last stage is copied by vectors, the first round of the
    // ring in the next item needs the fence. Later stages skip it, because the fence would wait for the page lookups in
    // flight.
    if (!kInOrder || stage < item.first + plan::kStages) fence_async_proxy();
    pages.copy(item, stage, rings.stage(place), full);
  }
}

/// Main loop of the producer warps, from the block's first work item on, for which begin_first_stage has been called.
/// Returns the place behind the last stage.
__device__ __forceinline__ StagePlace produce_stages(const Arguments& args, const Scheduler& scheduler,
                                                     SchedulerPosition position, WorkItem item, PageWindow& pages,
                                                     QueueEntry (&queue)[plan::kSegments], Rings rings) {
  const bool is_first = is_first_producer_thread();
  CopyPacer<plan::kInitialStages> pacer(static_cast<uint32>(static_cast<uint64>(args.pace) * scheduler.blocks() >> 10));
  StagePlace place;
  QueuePlace queue_place;
  bool is_very_first = item.first != item.last;  // an empty item has no copies to wait for
  bool are_looked_up = true;                     // pages of the item's first stage
#pragma unroll 1
  while (true) {
    if (is_first) publish_work_item(args, scheduler, position, item, queue, queue_place, rings);
    if (item.batch < 0) break;
    if (plan::Cache::kIsPaged && !are_looked_up) pages.begin(item);
    are_looked_up = false;
    const plan::Cache cache = plan::Cache::rows(args, item.batch, first_kv_head(args, item));
    VectorCopies<plan::Cache> vectors;
#pragma unroll 1
    for (StageIterator iterator(args, item); !iterator.is_over(); iterator.advance()) {
      const int stage = iterator.stage();
      const StageTokens tokens = tokens_in(args, item, stage);
      const bool is_tma = is_copied_by_tma(args, tokens);
      if (plan::Cache::kIsPaged && is_tma) pages.reach(item, stage);
      if (!is_tma) vectors.reach(args, cache, item, stage);
      if (is_first && is_tma) pacer.wait();
      wait_barrier(rings.empty(place), place.parity ^ 1);  // returns at once in the first round
      if (is_tma) {
        copy_stage_by_tma(args, item, stage, place, is_very_first, pages, rings);
      } else {
        vectors.copy(args, cache, item, stage, tokens, rings.stage(place));
        arrive_after_copies(rings.full(place));
      }
      place.advance();
      if (is_very_first) wait_barrier(rings.queue_empty(queue_place), queue_place.parity());
      is_very_first = false;
    }
    queue_place.advance();
    item = scheduler.next(position);
  }
  wait_copies<0>();
  return place;
}

/// Everything that the producer warps do in a block.
__device__ __forceinline__ void run_producer(const Arguments& args, BlockState& state, Rings rings) {
  Scheduler scheduler(args);
  SchedulerPosition position;
  const WorkItem first = scheduler.begin(position);
  PageWindow pages(args);
  if (plan::Cache::kIsPaged) pages.begin(first);
  if (is_first_producer_thread()) begin_first_stage(args, first, rings);
  if (plan::kMergesInCluster && is_first_producer_thread())
    state.merges_in_cluster =
        first.batch >= 0 && blocks_of_cluster() == kClusterBlocks && scheduler.every_sequence_has_two_blocks();
  __syncthreads();
  give_registers<plan::kProducerRegisters>();
  if (merges_in_cluster(state)) arrive_in_cluster();
  const StagePlace end = produce_stages(args, scheduler, position, first, pages, state.queue, rings);
  if (merges_in_cluster(state)) {
    wait_for_cluster();
    if (is_first_producer_thread()) release_stages(rings, end, plan::kStages, rings.of_cluster().free);
  }
}

}  // namespace cubit
