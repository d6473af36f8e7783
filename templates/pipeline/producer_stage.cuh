// What a stage of family sm90 has: rows of the cache for each warp that attends, keys and as many values, of which
// tokens and KV heads; and which stages a segment has. How rows lie: see sm90_gqa_decode.cuh. Those that copy a stage
// and those that attend to it ask the same here.
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "pipeline/balanced_schedule.cuh"

namespace cubit {

constexpr uint32 kHalfStage = kStageBytes / 2;  // keys, or values

/// Whether warps' rows are side by side because rows of the cache alone are no multiple of 16 bytes.
constexpr bool kRowsAreUnaligned = Keys::kRowBytes % 16 != 0;
constexpr int kColumnsOfWarps = kRowWarps / plan::kWarpsAbreast;
constexpr int kStageRows = kStageTokens * kColumnsOfWarps;

/// Whether stages are walked over one after the other: from the first to the last, or where a launch staggers from one
/// in the middle.
constexpr bool kInOrder = !plan::Score::kRises && !plan::Tokens::kIsWindow;

__device__ __forceinline__ int first_kv_head(const GqaDecodeArguments& args, const Segment& segment) {
  return segment.head / plan::kHeadGroups << args.span_log2;
}
__device__ __forceinline__ int head_group_of(const Segment& segment) { return segment.head % plan::kHeadGroups; }

/// Of a sequence, where the plan has a window.
__device__ __forceinline__ WalkedStages walked_stages(const GqaDecodeArguments& args, int length) {
  return stages_of_window(length, plan::Queries::query_position(length, 0), args.window, args.kept_tokens,
                          args.stage_tokens_log2);
}
__device__ __forceinline__ int count_stages(const GqaDecodeArguments& args, int length) {
  if constexpr (plan::Tokens::kIsWindow) return walked_stages(args, length).count;
  return stages_of(length, args.stage_tokens_log2);
}

/// A segment's stages in the order in which they are walked over: where scores rise from token to token, the last
/// first.
__device__ __forceinline__ int stage_of(const GqaDecodeArguments& args, const Segment& segment, int index) {
  if constexpr (plan::Score::kRises) index = segment.first + segment.last - 1 - index;
  if constexpr (plan::Tokens::kIsWindow) return walked_stages(args, segment.length).stage(index);
  return index;
}

/// The stages of a segment in the order in which they are walked over. Segment and arguments outlive it.
template <bool kIsStaggered>
class StageWalkOf {
 public:
  __device__ __forceinline__ StageWalkOf(const GqaDecodeArguments& args, const Segment& segment)
      : args_(args), segment_(segment), index_(segment.first) {}

  __device__ __forceinline__ bool is_over() const { return index_ >= segment_.last; }
  __device__ __forceinline__ void advance() { ++index_; }
  __device__ __forceinline__ int stage() const { return stage_of(args_, segment_, index_); }
  /// Tokens of the sequence from the stage's first on.
  __device__ __forceinline__ int tokens_left() const { return segment_.length - (stage() << args_.stage_tokens_log2); }

 private:
  const GqaDecodeArguments& args_;
  const Segment& segment_;
  int index_;
};

static_assert(!plan::kStaggers || (kInOrder && !plan::Cache::kIsPaged), "others have an order of their own");

/// From one in the middle to the last, then from the first on. Which one: multiples of the golden ratio are far from
/// one another, where segments' numbers are neighbours.
template <>
class StageWalkOf<true> {
 public:
  __device__ __forceinline__ StageWalkOf(const GqaDecodeArguments& args, const Segment& segment)
      : args_(args), segment_(segment) {
    const int count = segment.last - segment.first;
    const uint32 number = segment.batch + segment.first + segment.head / plan::kHeadGroups;
    index_ = segment.first + static_cast<int>(__umulhi(number * args.stagger, count));
    end_ = index_ + count;
  }

  __device__ __forceinline__ bool is_over() const { return index_ >= end_; }
  __device__ __forceinline__ void advance() { ++index_; }
  __device__ __forceinline__ int stage() const {
    return index_ < segment_.last ? index_ : index_ - (segment_.last - segment_.first);
  }
  /// As above; or as many as a stage has room for, for only a sequence's last one can have fewer.
  __device__ __forceinline__ int tokens_left() const {
    const int log2 = args_.stage_tokens_log2;
    return index_ < segment_.last ? segment_.length - (index_ << log2) : 1 << log2;
  }

 private:
  const GqaDecodeArguments& args_;
  const Segment& segment_;
  int index_;
  int end_;
};

using StageWalk = StageWalkOf<plan::kStaggers>;

/// Tokens of a stage that are read.
struct StageTokens {
  int first;  // of the sequence's
  int left;   // of the sequence from there on; none: zero or less
  int count;  // of those the stage's
  plan::Tokens tokens;

  /// Whether token `index` of the stage is.
  __device__ __forceinline__ bool has(int index) const {
    if constexpr (plan::Tokens::kIsWindow) return index < count && tokens.has(first + index);
    return index < count;
  }
  /// It, or if it is not read another that is: if the first is not, then all that are read come behind those that are
  /// not.
  __device__ __forceinline__ int readable(int index) const {
    if constexpr (plan::Tokens::kIsWindow) return has(index) ? index : tokens.has(first) ? 0 : count - 1;
    return min(index, count - 1);
  }
  __device__ __forceinline__ bool are_all(int of_stage) const {
    if constexpr (plan::Tokens::kIsWindow) return tokens.has_all(first, of_stage);
    // CUDA 13.0's ptxas, asked for sm_90a whether count is of_stage, may answer whether left is from 0 to of_stage.
    return left >= of_stage;
  }
};

/// The token of a warp's row of a stage, of those that the stage has.
__device__ __forceinline__ int token_of(const GqaDecodeArguments& args, int row, int warp) {
  if constexpr (kColumnsOfWarps > 1) {
    row += warp / plan::kWarpsAbreast * kStageTokens;
    warp %= plan::kWarpsAbreast;
  }
  return (row << args.row_step_log2) + (warp >> args.span_log2 << args.warp_step_log2);
}

__device__ __forceinline__ StageTokens tokens_in(const GqaDecodeArguments& args, const Segment& segment, int stage) {
  const int whole = 1 << args.stage_tokens_log2;
  const int first = stage << args.stage_tokens_log2;
  const int length = segment.length;
  const int left = length - first;
  return {first, left, max(0, min(left, whole)), plan::Tokens(args, length, plan::Queries::query_position(length, 0))};
}

}  // namespace cubit
