// Loads of separate scale tensors in the sm_90 attention kernel: each consumer warp loads the scales of a stage's rows
// into registers while the previous stage is in use.
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/balanced_schedule.cuh"
#include "pipeline/producer_stage.cuh"
#include "pipeline/work_queue.cuh"

namespace cubit {

/// Query rows of this warp in a work item.
__device__ __forceinline__ QueryRows query_rows_of(const GqaDecodeArguments& args, const QueueEntry& entry) {
  const int kv_head = entry.kv_head + (row_warp_index() & ((1 << args.span_log2) - 1));
  return query_rows_of_warp(kv_head, head_group_of(entry.item));
}

/// Scales of the next stage that a warp will process, from separate scale tensors; the loads are in flight. With a
/// paged cache, the struct also holds the places of the warp's rows in the stage after that.
struct NextScales {
  StageScales stage;
  plan::Cache::Place places[plan::kTilesPerStage];
};

/// Scale loads of a consumer warp for one work item: the scales of each stage are loaded while the previous stage is in
/// use. If kAny is false, the cache has no separate scale tensors and all functions do nothing.
template <bool kAny>
class ScaleLoads {
 public:
  __device__ __forceinline__ ScaleLoads(const GqaDecodeArguments& args, const QueueEntry& entry)
      : args_(args),
        cache_(plan::Cache::rows(args, entry.item.batch, query_rows_of(args, entry).kv_head)),
        rows_(Scales::rows(cache_)),
        item_(entry.item),
        tokens_(args, entry.item.length, plan::Queries::query_position(entry.item.length, 0)) {}

  /// Loads the scales of the item's first stage.
  __device__ __forceinline__ void begin(NextScales& next) const {
    if (item_.first == item_.last) return;
    const StageIterator iterator(args_, item_);
    if constexpr (plan::Cache::kIsPaged) look_up(next, iterator.stage());
    fetch(next, iterator);
  }

  /// Loads the scales of a further stage, to which `iterator` points.
  __device__ __forceinline__ void fetch(NextScales& next, StageIterator iterator) const {
    const int stage = iterator.stage();
#pragma unroll
    for (int tile = 0; tile < plan::kTilesPerStage; ++tile) {
      const int token = own_token(stage, tile);
      plan::Cache::Place place;
      if constexpr (plan::Cache::kIsPaged) {
        place = next.places[tile];
      } else {
        place = cache_.place(token);
      }
      next.stage.tiles[tile].fetch_row(rows_, place, tokens_.has(token));
    }
    if constexpr (plan::Cache::kIsPaged) {
      iterator.advance();
      look_up(next, iterator.is_over() ? stage : iterator.stage());
    }
  }

 private:
  /// Token of the lane's row of a tile.
  __device__ __forceinline__ int own_token(int stage, int tile) const {
    const int row = tile * kTileTokens + lane_index() % kTileTokens;
    return (stage << args_.stage_tokens_log2) + token_of(args_, row, row_warp_index());
  }

  __device__ __forceinline__ void look_up(NextScales& next, int stage) const {
#pragma unroll
    for (int tile = 0; tile < plan::kTilesPerStage; ++tile) {
      const int token = own_token(stage, tile);
      next.places[tile] = tokens_.has(token) ? cache_.place(token) : plan::Cache::Place{};
    }
  }

  const GqaDecodeArguments& args_;
  plan::Cache cache_;
  decltype(Scales::rows(cache_)) rows_;
  WorkItem item_;
  plan::Tokens tokens_;
};

template <>
class ScaleLoads<false> {
 public:
  __device__ __forceinline__ ScaleLoads(const GqaDecodeArguments&, const QueueEntry&) {}
  __device__ __forceinline__ void begin(NextScales&) const {}
  __device__ __forceinline__ void fetch(NextScales&, StageIterator) const {}
};

}  // namespace cubit
