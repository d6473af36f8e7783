// TMA producer of the sm_90 attention kernel: copies K/V stages from global to shared memory by TMA box copies.
//
// With a contiguous cache, one thread issues all box copies of a stage. With a paged cache, a box holds rows of one
// page, and all producer warps issue some of the copies. Stages that TMA cannot copy go through
// vector_copy_producer.cuh. Each stage has a full and an empty mbarrier; see sm90_gqa_decode.cuh.
//
// PTX ISA: "cp.async.bulk.tensor".
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "core/bulk_copies.cuh"
#include "core/divide_by.h"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/balanced_schedule.cuh"
#include "pipeline/producer_stage.cuh"

namespace cubit {

/// Kernel arguments with the tensor maps of the cache. The maps have elements of 8 bytes and five dimensions:
///
///   0     elements of one part of a row; a part is as wide as the swizzle, and an unaligned row is a single part
///   1, 2  parts of a row, then rows; if plan::kRowsInParts, rows and then parts, as in the stage
///   3     spans of KV heads
///   4     batch entries, or pages
///
/// A row of a map holds the K or V rows that lie next to each other in the cache and in the stage: of all warps if
/// there is one column of boxes (args.boxes == 1), otherwise of one span, or with unaligned rows of the interleaved
/// warps.
struct Arguments : GqaDecodeArguments {
  TensorMap keys;
  TensorMap values;
};

/// TMA box copies of the cache. If the plan says so, the L2 evicts the copied lines first.
struct CacheBoxes {
  EvictFirst evict_first;

  __device__ __forceinline__ void copy(uint32 dst, const TensorMap& map, int y, int z, int u, int v,
                                       uint32 full) const {
    if constexpr (plan::kEvictsFirst) {
      copy_box(dst, map, y, z, u, v, full, evict_first);
    } else {
      copy_box(dst, map, y, z, u, v, full);
    }
  }
};

/// Issues all box copies of a stage; one thread calls the function, and the stage must be empty. There are args.boxes
/// boxes of keys and as many of values. If there is one, the box holds the rows of all warps. Otherwise box i holds
/// kStageTokens consecutive tokens of the span, for the i-th group of warps; with unaligned rows, the rows of the i-th
/// set of interleaved warps.
__device__ __forceinline__ void copy_boxes(const Arguments& args, const WorkItem& item, int stage, uint32 dst,
                                           uint32 full) {
  expect_bytes(full, 2 * kHalfStage);
  const int batch = item.batch;
  const int span = first_kv_head(args, item) >> args.span_log2;
  const uint32 box_bytes = kRowsAreUnaligned ? kHalfStage / kInterleavedSets
                           : args.boxes == 1 ? kHalfStage
                                             : kHalfStage / kRowWarps << args.span_log2;
  const CacheBoxes boxes;
  int row = stage * args.boxes * kStageTokens;
#pragma unroll 1
  for (uint32 at = 0; at < kHalfStage; at += box_bytes, row += kStageTokens) {
    const int y = plan::kRowsInParts ? row : 0;
    const int z = plan::kRowsInParts ? 0 : row;
    boxes.copy(dst + at, args.keys, y, z, span, batch, full);
    boxes.copy(dst + kHalfStage + at, args.values, y, z, span, batch, full);
  }
}

/// Returns whether a stage is copied by TMA: the tensor maps describe the cache (args.boxes is not 0), and all tokens
/// of the stage are read.
__device__ __forceinline__ bool is_copied_by_tma(const GqaDecodeArguments& args, const StageTokens& tokens) {
  return args.boxes != 0 && tokens.are_all(1 << args.stage_tokens_log2);
}

/// Box copies from a paged cache, with page lookups well ahead of the copies.
///
/// The rows of a stage are divided into granules; each granule lies in one page. A granule is one box, or one box for
/// each swizzle-wide part of its rows (128, 64 or 32 bytes). Lane l of every producer warp holds the page of granule l
/// of a window of 32 granules, which covers whole stages, and also the page of granule l of the next window. Half of
/// the warps copy keys and half copy values; of the two warps with the same tensor, one takes the even granules and one
/// the odd granules.
class PageWindow {
 public:
  explicit __device__ __forceinline__ PageWindow(const Arguments& args) : args_(args) {}

  /// Looks up the first two windows of a work item. Called as soon as the item is known.
  __device__ __forceinline__ void begin(const WorkItem& item) {
    if (args_.boxes == 0 || item.batch < 0) return;
    window_ = window_of(stage_of(args_, item, item.first));
    now_ = look_up(item, window_);
    next_ = look_up(item, window_ + kStep);
  }
  /// Called once for each TMA stage of the item, in visiting order: moves on to the next window if necessary.
  __device__ __forceinline__ void reach(const WorkItem& item, int stage) {
    if constexpr (kInOrder) {
      const int granule = stage << args_.granules_log2;
      if (stage == item.first || (granule & (kGranules - 1)) != 0) return;
      now_ = next_;
      next_ = look_up(item, (granule >> kGranulesLog2) + 1);
    } else {
      const int window = window_of(stage);
      if (window == window_) return;
      now_ = window == window_ + kStep ? next_ : look_up(item, window);
      next_ = look_up(item, window + kStep);
      window_ = window;
    }
  }

  /// Issues the box copies of this thread.
  __device__ __forceinline__ void copy(const WorkItem& item, int stage, uint32 dst, uint32 full) const {
    const int lane = lane_index();
    const int warp = warp_index() - plan::kWarps;
    const int granule = lane & ((1 << args_.granules_log2) - 1);
    if (granule + (stage << args_.granules_log2 & (kGranules - 1)) != lane || (granule & 1) != warp >> 1) return;
    const bool is_value = (warp & 1) != 0;
    const TensorMap& map = is_value ? args_.values : args_.keys;
    const int span = first_kv_head(args_, item) >> args_.span_log2;
    const uint32 token = token_of_granule((stage << args_.granules_log2) + granule);
    const uint32 in_page = token - quotient(token, args_.page_size) * args_.page_size.divisor;
    const int row = static_cast<int>(in_page >> args_.row_step_log2);
    const int column = granule >> args_.column_granules_log2;
    const int in_column = granule & ((1 << args_.column_granules_log2) - 1);
    const uint32 part_bytes = args_.box_bytes << args_.column_granules_log2;
    const CacheBoxes boxes;
    uint32 at = dst + (is_value ? kHalfStage : 0) + column * args_.box_parts * part_bytes + in_column * args_.box_bytes;
#pragma unroll 1
    for (int part = 0; part < args_.box_parts; ++part, at += part_bytes) {
      boxes.copy(at, map, plan::kRowsInParts ? row : part, plan::kRowsInParts ? part : row, span, now_, full);
    }
  }

 private:
  static constexpr int kGranulesLog2 = 5;
  static constexpr int kGranules = 1 << kGranulesLog2;
  static_assert(plan::kProducerWarps == 4);

  static constexpr int kStep = plan::Score::kRises ? -1 : 1;

  __device__ __forceinline__ int window_of(int stage) const { return stage << args_.granules_log2 >> kGranulesLog2; }
  /// Index in the sequence of the granule's first token.
  __device__ __forceinline__ uint32 token_of_granule(int granule) const {
    return granule << (args_.stage_tokens_log2 - args_.granules_log2);
  }
  __device__ __forceinline__ int look_up(const WorkItem& item, int window) const {
    const uint32 token = token_of_granule(window * kGranules + lane_index());
    if (token >= static_cast<uint32>(item.length)) return 0;
    return args_.page_table[item.batch * args_.page_table_stride + quotient(token, args_.page_size)];
  }

  const Arguments& args_;
  int window_ = 0;
  int now_ = 0;   // pages of the current window
  int next_ = 0;  // pages of the next window
};

}  // namespace cubit
