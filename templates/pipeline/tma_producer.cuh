// Family sm90: copies of a stage in boxes of tensor maps (TMA). Of a contiguous cache one thread starts them all; of a
// paged one a box has rows of one page, and all copying warps start some. What boxes do not do: vector_copy_producer.cuh.
//
// PTX ISA: "cp.async.bulk.tensor".
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "core/bulk_copies.cuh"
#include "core/divide_by.h"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "pipeline/balanced_schedule.cuh"
#include "pipeline/producer_stage.cuh"

namespace cubit {

/// The maps' dimensions: 8 bytes, parts of a box's row and those rows in the order in which the stage has them, spans,
/// batch or pages.
struct Arguments : GqaDecodeArguments {
  TensorMap keys;
  TensorMap values;
};

/// Copies of boxes of a cache, whose lines the L2 lets go of first where the plan says so.
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

/// By one thread, the stage is empty: all boxes of a stage, so that a box's rows are those of one span, or of all
/// warps; of unaligned rows those of the warps that are abreast.
__device__ __forceinline__ void copy_boxes(const Arguments& args, const Segment& segment, int stage, uint32 dst,
                                           uint32 full) {
  expect_bytes(full, 2 * kHalfStage);
  const int batch = segment.batch;
  const int span = first_kv_head(args, segment) >> args.span_log2;
  const uint32 box_bytes = kRowsAreUnaligned ? kHalfStage / kColumnsOfWarps
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

__device__ __forceinline__ bool is_of_boxes(const GqaDecodeArguments& args, const StageTokens& tokens) {
  return args.boxes != 0 && tokens.are_all(1 << args.stage_tokens_log2);
}

/// Of a paged cache: the boxes that the copying warps start. The rows of a stage are granules, each of one page; a
/// granule is a box, or one of each of its rows' parts. Lane l of every copying warp has the page of granule l of a
/// window of 32, which is whole stages, and of the window behind it, so that pages are looked up long before they are
/// copied. Half of the warps copy keys, half of them values; of those one has the even granules.
class PageWindow {
 public:
  explicit __device__ __forceinline__ PageWindow(const Arguments& args) : args_(args) {}

  /// As soon as the segment is known.
  __device__ __forceinline__ void begin(const Segment& segment) {
    if (args_.boxes == 0 || segment.batch < 0) return;
    window_ = window_of(stage_of(args_, segment, segment.first));
    now_ = look_up(segment, window_);
    next_ = look_up(segment, window_ + kStep);
  }
  /// Once for each of its stages that are copied in boxes, in their order.
  __device__ __forceinline__ void reach(const Segment& segment, int stage) {
    if constexpr (kInOrder) {
      const int granule = stage << args_.granules_log2;
      if (stage == segment.first || (granule & (kGranules - 1)) != 0) return;
      now_ = next_;
      next_ = look_up(segment, (granule >> kGranulesLog2) + 1);
    } else {
      const int window = window_of(stage);
      if (window == window_) return;
      now_ = window == window_ + kStep ? next_ : look_up(segment, window);
      next_ = look_up(segment, window + kStep);
      window_ = window;
    }
  }

  /// The boxes of this thread.
  __device__ __forceinline__ void copy(const Segment& segment, int stage, uint32 dst, uint32 full) const {
    const int lane = lane_index();
    const int warp = warp_index() - plan::kWarps;
    const int granule = lane & ((1 << args_.granules_log2) - 1);
    if (granule + (stage << args_.granules_log2 & (kGranules - 1)) != lane || (granule & 1) != warp >> 1) return;
    const bool is_value = (warp & 1) != 0;
    const TensorMap& map = is_value ? args_.values : args_.keys;
    const int span = first_kv_head(args_, segment) >> args_.span_log2;
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
  static_assert(plan::kCopyWarps == 4);

  static constexpr int kStep = plan::Score::kRises ? -1 : 1;

  __device__ __forceinline__ int window_of(int stage) const { return stage << args_.granules_log2 >> kGranulesLog2; }
  /// The first of its tokens.
  __device__ __forceinline__ uint32 token_of_granule(int granule) const {
    return granule << (args_.stage_tokens_log2 - args_.granules_log2);
  }
  __device__ __forceinline__ int look_up(const Segment& segment, int window) const {
    const uint32 token = token_of_granule(window * kGranules + lane_index());
    if (token >= static_cast<uint32>(segment.length)) return 0;
    return args_.page_table[segment.batch * args_.page_table_stride + quotient(token, args_.page_size)];
  }

  const Arguments& args_;
  int window_ = 0;
  int now_ = 0;  // pages
  int next_ = 0;
};

}  // namespace cubit
