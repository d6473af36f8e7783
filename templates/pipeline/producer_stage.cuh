// Contents of a pipeline stage in the sm_90 kernel, and the order in which a work item's stages are visited.
//
// A stage holds rows of the cache for each consumer warp: as many rows of values as rows of keys. The functions here
// say which tokens and KV heads these rows belong to. Producer and consumer warps call the same functions.
// sm90_gqa_decode.cuh shows how the rows lie in shared memory.
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/balanced_schedule.cuh"

namespace cubit {

constexpr int kCopyThreads = plan::kProducerWarps * kWarpSize;  // of the producer warps
constexpr uint32 kHalfStage = kStageBytes / 2;                  // bytes of a stage's keys, and of its values

/// True if rows of the cache are no multiple of 16 bytes, so that rows of several warps lie next to each other for
/// alignment.
constexpr bool kRowsAreUnaligned = Keys::kRowBytes % 16 != 0;
// Sets of warps whose rows are interleaved; the rows of the sets follow one another in a stage.
constexpr int kInterleavedSets = kRowWarps / plan::kInterleavedWarps;
// Interleaved rows of a stage's keys, each with one row of every warp of a set.
constexpr int kStageRows = kStageTokens * kInterleavedSets;

/// True if stages are visited in increasing order: from the first to the last, or cyclically from a start offset.
constexpr bool kInOrder = !plan::Score::kRises && !plan::Tokens::kIsWindow;

__device__ __forceinline__ int first_kv_head(const GqaDecodeArguments& args, const WorkItem& item) {
  return item.head / plan::kHeadGroups << args.span_log2;
}
__device__ __forceinline__ int head_group_of(const WorkItem& item) { return item.head % plan::kHeadGroups; }

/// Stages of a sequence that a sliding window visits. Only valid if the plan has a window.
__device__ __forceinline__ VisitedStages visited_stages(const GqaDecodeArguments& args, int length) {
  return stages_of_window(length, plan::Queries::query_position(length, 0), args.window, args.kept_tokens,
                          args.stage_tokens_log2);
}
__device__ __forceinline__ int count_stages(const GqaDecodeArguments& args, int length) {
  if constexpr (plan::Tokens::kIsWindow) return visited_stages(args, length).count;
  return stages_of(length, args.stage_tokens_log2);
}

/// Number of the stage that a work item visits at position `index`. If the plan's scores rise from token to token, the
/// last stage comes first.
__device__ __forceinline__ int stage_of(const GqaDecodeArguments& args, const WorkItem& item, int index) {
  if constexpr (plan::Score::kRises) index = item.first + item.last - 1 - index;
  if constexpr (plan::Tokens::kIsWindow) return visited_stages(args, item.length).stage(index);
  return index;
}

/// Iterates over a work item's stages in visiting order. The iterator refers to the item and to the arguments, which
/// must outlive it.
template <bool kHasStartOffset>
class StageIteratorOf {
 public:
  __device__ __forceinline__ StageIteratorOf(const GqaDecodeArguments& args, const WorkItem& item)
      : args_(args), item_(item), index_(item.first) {}

  __device__ __forceinline__ bool is_over() const { return index_ >= item_.last; }
  __device__ __forceinline__ void advance() { ++index_; }
  __device__ __forceinline__ int stage() const { return stage_of(args_, item_, index_); }
  /// Tokens of the sequence from the stage's first token on.
  __device__ __forceinline__ int tokens_left() const { return item_.length - (stage() << args_.stage_tokens_log2); }

 private:
  const GqaDecodeArguments& args_;
  const WorkItem& item_;
  int index_;
};

static_assert(!plan::kOffsetsStart || (kInOrder && !plan::Cache::kIsPaged),
              "windows and pages have a visiting order of their own");

/// Iterates from a start offset to the last stage, and then from the first stage to the start offset. Multiples of the
/// golden ratio choose the offset, because they are far apart for work items with neighbouring numbers.
template <>
class StageIteratorOf<true> {
 public:
  __device__ __forceinline__ StageIteratorOf(const GqaDecodeArguments& args, const WorkItem& item)
      : args_(args), item_(item) {
    const int count = item.last - item.first;
    const uint32 number = item.batch + item.first + item.head / plan::kHeadGroups;
    index_ = item.first + static_cast<int>(__umulhi(number * args.stagger, count));
    end_ = index_ + count;
  }

  __device__ __forceinline__ bool is_over() const { return index_ >= end_; }
  __device__ __forceinline__ void advance() { ++index_; }
  __device__ __forceinline__ int stage() const {
    return index_ < item_.last ? index_ : index_ - (item_.last - item_.first);
  }
  /// Tokens of the sequence from the stage's first token on. After the wrap-around the result is a full stage, because
  /// only a sequence's last stage can have fewer tokens.
  __device__ __forceinline__ int tokens_left() const {
    const int log2 = args_.stage_tokens_log2;
    return index_ < item_.last ? item_.length - (index_ << log2) : 1 << log2;
  }

 private:
  const GqaDecodeArguments& args_;
  const WorkItem& item_;
  int index_;
  int end_;
};

using StageIterator = StageIteratorOf<plan::kOffsetsStart>;

/// Tokens of a stage that are read.
struct StageTokens {
  int first;  // index in the sequence of the stage's first token
  int left;   // tokens of the sequence from there on; zero or less if there are none
  int count;  // tokens of the sequence in the stage
  plan::Tokens tokens;

  /// Returns whether token `index` of the stage is read.
  __device__ __forceinline__ bool has(int index) const {
    if constexpr (plan::Tokens::kIsWindow) return index < count && tokens.has(first + index);
    return index < count;
  }
  /// Returns `index` if that token is read, and otherwise the index of another token that is read. If the stage's first
  /// token is not read, all tokens that are read come behind the tokens that are not.
  __device__ __forceinline__ int readable(int index) const {
    if constexpr (plan::Tokens::kIsWindow) return has(index) ? index : tokens.has(first) ? 0 : count - 1;
    return min(index, count - 1);
  }
  /// Returns whether all `of_stage` tokens of a full stage are read.
  __device__ __forceinline__ bool are_all(int of_stage) const {
    if constexpr (plan::Tokens::kIsWindow) return tokens.has_all(first, of_stage);
    // Compare `left`, not `count`: ptxas of CUDA 13.0 for sm_90a may compile a comparison of count with of_stage as a
    // test that left is between 0 and of_stage.
    return left >= of_stage;
  }
};

/// Index in the stage of the token to which a warp's row belongs.
__device__ __forceinline__ int token_of(const GqaDecodeArguments& args, int row, int warp) {
  if constexpr (kInterleavedSets > 1) {
    row += warp / plan::kInterleavedWarps * kStageTokens;
    warp %= plan::kInterleavedWarps;
  }
  return (row << args.row_step_log2) + (warp >> args.span_log2 << args.warp_step_log2);
}

__device__ __forceinline__ StageTokens tokens_in(const GqaDecodeArguments& args, const WorkItem& item, int stage) {
  const int whole = 1 << args.stage_tokens_log2;
  const int first = stage << args.stage_tokens_log2;
  const int length = item.length;
  const int left = length - first;
  return {first, left, max(0, min(left, whole)), plan::Tokens(args, length, plan::Queries::query_position(length, 0))};
}

}  // namespace cubit
