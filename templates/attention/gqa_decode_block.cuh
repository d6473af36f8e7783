// What the families of GQA decode share around their loops: masking, the warps' results in shared memory, their merge
// with one another and with those of other splits, and the final output.
//
// The warps' results in shared memory: a word for last_block, or two for merge_parts, padded to 16 bytes, floats
// [kRowWarps][kHeadsPerBlock][pitch] and stats [kRowWarps][kHeadsPerBlock][2]. What becomes of several blocks' results:
// see partial_results.cuh.
//
// Columns of a block are one warp's, or in family sm90 those of kColumnGroups warps, one after the other, which have
// the same rows: warp w has rows of row warp w / kColumnGroups and the columns of group w % kColumnGroups.
//
// Roles that the plan chooses, each a header with a fixed interface:
//   plan::Cache   cache addressing, see kv_contiguous.cuh
//   plan::Queries query tokens: what a head is and which positions it sees, see query_tokens.cuh. Here the heads of
//                 every query token count as heads of their own
//   plan::Keys, plan::Values  number formats, alike or not (kv_rows16.cuh, kv_int4_rows.cuh, kv_bytes.cuh: each is
//                 either role's); all functions are called by whole warps. Of both:
//     Layout                        whose scores a lane has, see score_layout.cuh
//     kTilesPerStep                 tiles of 16 tokens that a warp takes at once: one, or all that it has of a stage
//     kRowBytes, kHeaderBytes, stage_byte(byte)   bytes of a row in the cache and of the header that it begins with,
//                                   and where one of them goes in a stage's row
//     clear_padding(stage, first row)   once per stage, before the first copy, where headers are padded (family sm80)
//     Scales                        of a row, in a tensor of their own: see kv_scales.cuh
//   plan::Keys:
//     RawQuery, fetch_query(raw, rows, heads)   loads of a block's heads
//     Query, load_query(query, raw, scale)   the B operand made of them, scaled as the format needs, see
//                                   query_operands.cuh
//     OneTile, kSharedQueryFactor   family sm80: the same of one head tile, with the same operand of it, and what to
//                                   multiply `scale` by then
//     key_factor(args)              what all keys are multiplied by
//     scores(query, stage, tile scales, scores)       [accumulator][element], of a step, in base 2
//   plan::Values:
//     ValueScales, load_value_scales(scales, stage, tile scales)   what accumulate needs to know of a tile's values
//                                   beforehand, and its `peak`: the largest factor of a weight, where
//                                   kWeightsAreScaled; kAnyFactor: also where that is small
//     scale_outputs(output, args)   by what all values are multiplied by
//     Accumulator, accumulate(output, softmax, stage, scales, weights), rescale(output, factors)
//     kSumsWeights, add_weights(softmax, output)   weights are summed in the accumulator, and given to the softmax in
//                                   the end
//     store(output, dst, pitch)     unnormalised outputs as floats in shared memory
//   plan::Stage   family sm80: where rows lie in a stage, and who copies them, see kv_stage.cuh
//   plan::Tokens  which tokens are read and seen, see tokens_all.cuh
//   plan::Score   what happens to scores before they are masked, see score_steps.cuh
//   plan::Sink    what joins the denominator beside the tokens, see sink_none.cuh
#pragma once

#include "plan.cuh"

#include "attention/gqa_decode_lanes.h"
#include "attention/online_softmax.cuh"
#include "attention/query_tokens.cuh"
#include "attention/score_steps.cuh"
#include "attention/sequence_length.cuh"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "kv_format/kv_scales.cuh"
#include "pipeline/partial_results.cuh"
#include "pipeline/split_kv.cuh"

namespace cubit {

using Keys = plan::Keys;
using Values = plan::Values;
using Scales = TileScales<Keys::Scales, Values::Scales>;
using Layout = Keys::Layout;
using Softmax = OnlineSoftmax<Layout, Values::kAnyFactor, !Values::kSumsWeights>;

constexpr int kThreads = plan::kWarps * kWarpSize;  // that attend
constexpr int kRowWarps = plan::kWarps / plan::kColumnGroups;
constexpr int kTileTokens = lanes::kTileRows;
constexpr int kTileBytes = plan::kTileBytes;  // where a stage has several: from one to the next, of keys or of values
constexpr int kStageTokens = kTileTokens * plan::kTilesPerStage;  // a warp's
constexpr int kSteps = plan::kTilesPerStage / Keys::kTilesPerStep;
constexpr int kStepTokens = kTileTokens * Keys::kTilesPerStep;
constexpr int kStageBytes = plan::kStageBytes;
constexpr int kMergePitch = lanes::merge_pitch(plan::kValueDim, plan::kHeadsAreRows);

/// Query heads of a block: fewer in the last head group of a KV head where they do not divide evenly.
__device__ __forceinline__ int heads_in(int head_group) {
  constexpr int kColumns = plan::Queries::kColumns;
  if constexpr (kColumns % plan::kHeadsPerBlock == 0) {
    return plan::kHeadsPerBlock;
  } else {
    return min(plan::kHeadsPerBlock, kColumns - head_group * plan::kHeadsPerBlock);
  }
}

/// The first of them, among those of its KV head.
__device__ __forceinline__ int first_column(int head_group) { return head_group * plan::kHeadsPerBlock; }

/// The warp's place among those that have other rows.
__device__ __forceinline__ int row_warp_index() { return warp_index() / plan::kColumnGroups; }

/// Its columns among those of a block: the first of kHeadsPerWarp.
__device__ __forceinline__ int first_column_of_warp() {
  if constexpr (plan::kColumnGroups == 1) return 0;
  return warp_index() % plan::kColumnGroups * plan::kHeadsPerWarp;
}

/// Columns of a warp: `count` from `first` on, of a KV head. Those beyond the last are as the last one, and are not
/// stored.
struct BlockColumns {
  int kv_head;
  int first;
  int count;

  __device__ __forceinline__ int clamped(int column) const { return first + min(column, count - 1); }
  __device__ __forceinline__ int head(int column) const {
    return plan::Queries::place_of(kv_head, clamped(column)).head;
  }
  __device__ __forceinline__ int query_position(int length, int column) const {
    return plan::Queries::query_position(length, clamped(column));
  }
};

/// At least one: a warp beyond the last column has that again.
__device__ __forceinline__ BlockColumns columns_of_warp(int kv_head, int head_group) {
  const int first = first_column(head_group);
  const int count = heads_in(head_group);
  if constexpr (plan::kColumnGroups == 1) return {kv_head, first, count};
  const int before = min(first_column_of_warp(), count - 1);
  return {kv_head, first + before, min(count - before, plan::kHeadsPerWarp)};
}

/// Where a warp's rows of a stage are in the sequence: from `first` on, one behind the other.
struct NeighbouringRows {
  int first;

  __device__ __forceinline__ int at(int row) const { return first + row; }
  __device__ __forceinline__ int end() const { return first + kStageTokens; }
};

/// Family sm90, whose warps may take tokens in turn: 2^step_log2 apart.
struct RowsInTurn {
  int first;
  int step_log2;

  __device__ __forceinline__ int at(int row) const { return first + (row << step_log2); }
  __device__ __forceinline__ int end() const { return at(kStageTokens - 1) + 1; }
};

/// The reference that a softmax begins with: a column whose tokens are all masked keeps it, and from minus infinity its
/// scores could not be subtracted.
__device__ __forceinline__ float first_reference() {
  return plan::Tokens::kIsWindow || plan::Score::kMayMask ? kBelowEveryScore : plan::Queries::first_reference();
}

/// The plan's steps for the scores of one sequence and the columns of a warp.
class BlockScores {
 public:
  __device__ __forceinline__ BlockScores(const GqaDecodeArguments& args, int batch, const BlockColumns& columns,
                                         int length)
      : steps_(args, columns), batch_(batch), columns_(columns), length_(length) {}

  /// Scores of a step's rows, from `first` on.
  template <class Rows>
  __device__ __forceinline__ void modify(float (&scores)[Layout::kTiles][4], const Rows& rows, int first) const {
    const int lane = lane_index<plan::kRecomputesLanes>();
#pragma unroll
    for (int tile = 0; tile < Layout::kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!Layout::has(i)) continue;
        const int set = Layout::set(tile);
        const int column = Layout::column(lane, set, Layout::head(i));
        const ScorePlace place{batch_, columns_.head(column), columns_.query_position(length_, column),
                               rows.at(first + Layout::row(lane, tile, i))};
        scores[tile][i] = steps_.apply(scores[tile][i], set, Layout::head(i), place);
      }
    }
  }

  __device__ __forceinline__ int query_position(int column) const { return columns_.query_position(length_, column); }

 private:
  plan::Score steps_;
  int batch_;
  BlockColumns columns_;
  int length_;
};

/// Scores of a step's rows, from `first` on: of positions that a head does not see they become minus infinity.
template <class Rows>
__device__ __forceinline__ void mask_scores(float (&scores)[Layout::kTiles][4], const Rows& rows, int first,
                                            const plan::Queries& queries, const plan::Tokens& tokens,
                                            const BlockScores& steps) {
  const int lane = lane_index<plan::kRecomputesLanes>();
#pragma unroll
  for (int set = 0; set < Layout::kSets; ++set) {
    const int columns[2] = {Layout::column(lane, set, 0), Layout::column(lane, set, 1)};
    const decltype(queries.sight(0)) sights[2] = {queries.sight(columns[0]), queries.sight(columns[1])};
    const int positions[2] = {steps.query_position(columns[0]), steps.query_position(columns[1])};
#pragma unroll
    for (int tile = 0; tile < Layout::kTiles; ++tile) {
      if (Layout::set(tile) != set) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!Layout::has(i)) continue;
        const int head = Layout::head(i);
        const int position = rows.at(first + Layout::row(lane, tile, i));
        if (!sights[head].sees(position) || tokens.hides(position, positions[head]))
          scores[tile][i] = negative_infinity();
      }
    }
  }
}

__device__ __forceinline__ void fetch_queries(Keys::RawQuery& raw, const GqaDecodeArguments& args, int batch,
                                              const BlockColumns& columns) {
  Keys::fetch_query(raw, plan::Queries::rows(args, batch, columns.kv_head, columns.first), columns.count);
}

/// Of a warp's tiles of a stage, where scales are tensors of their own.
struct StageScales {
  Scales tiles[plan::kTilesPerStage];
};

/// One warp's work on its tiles of a stage, the keys, then their values: rows, of which those that `queries` do not see
/// or `tokens` hide are masked.
template <class Rows>
__device__ __forceinline__ void attend(const Keys::Query& query, uint32 stage, const Rows& rows,
                                       const plan::Queries& queries, const plan::Tokens& tokens, Softmax& softmax,
                                       Values::Accumulator& output, const BlockScores& steps,
                                       const StageScales& stage_scales) {
  float scores[kSteps][Layout::kTiles][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    Keys::scores(query, stage + step * kTileBytes, stage_scales.tiles[step], scores[step]);
  if constexpr (!plan::Score::kIsPlain) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) steps.modify(scores[step], rows, step * kStepTokens);
  }
  if (rows.end() > queries.seen_by_all() || tokens.hides_any(rows.first, rows.end() - rows.first)) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      mask_scores(scores[step], rows, step * kStepTokens, queries, tokens, steps);
  }
  // Only one tile's scales are kept in registers; the others are loaded again when they are used.
  Values::ValueScales scales;
  float peak = 0.f;
#pragma unroll
  for (int step = kSteps - 1; step >= 0; --step) {
    Values::load_value_scales(scales, stage + step * kTileBytes, stage_scales.tiles[step]);
    peak = maximum(peak, scales.peak);
  }
  softmax.weigh<Values::kWeightsAreScaled>(scores, peak,
                                           [&](const Softmax::Factors& factors) { Values::rescale(output, factors); });
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step > 0) Values::load_value_scales(scales, stage + step * kTileBytes, stage_scales.tiles[step]);
    Values::accumulate(output, softmax, stage + step * kTileBytes, scales, scores[step]);
  }
}

/// Behind the loop: afterwards every lane of a column has its totals.
template <class Format>
__device__ __forceinline__ void finish_softmax(Softmax& softmax, const typename Format::Accumulator& output) {
  if constexpr (Format::kSumsWeights) Format::add_weights(softmax, output);
  softmax.finish();
}

/// Where the warps of a block leave their unnormalised results.
struct WarpResults {
  static constexpr int kOutputsAt = 16;

  uint32* arrived;
  float* outputs;  // [kRowWarps][kHeadsPerBlock][kMergePitch]
  float2* stats;   // [kRowWarps][kHeadsPerBlock] reference exponent and sum of weights
};

__device__ __forceinline__ WarpResults results_in(unsigned char* shared) {
  float* const outputs = reinterpret_cast<float*>(shared + WarpResults::kOutputsAt);
  return {reinterpret_cast<uint32*>(shared), outputs,
          reinterpret_cast<float2*>(outputs + kRowWarps * plan::kHeadsPerBlock * kMergePitch)};
}

/// A warp's references and sums, [kHeadsPerWarp].
__device__ __forceinline__ void store_stats(const Softmax& softmax, float2* dst) {
  const int lane = lane_index<plan::kRecomputesLanes>();
  if (!Layout::is_first(lane)) return;  // every lane of a column has its totals
#pragma unroll
  for (int set = 0; set < Layout::kSets; ++set) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = Layout::column(lane, set, i);
      if (head >= plan::kHeadsPerWarp) continue;
      dst[head] = softmax.stats(set, i);  // access: stores of warps' sums
    }
  }
}

/// Divides by the sum, rounds, and stores four channels; the thread of channel 0 also stores the log-sum-exp. A head
/// that sees nothing has sum 0: its output is zero and its log-sum-exp minus infinity.
__device__ __forceinline__ void finish(const GqaDecodeArguments& args, int batch, QueryPlace query, int channel,
                                       Combined result) {
  plan::Sink::join(args, query.head, result);
  const float inverse = reciprocal_fast(maximum(result.sum, 0x1p-126f));
  char* row = static_cast<char*>(args.output) + batch * args.output_batch_stride +
              query.head * args.output_head_stride + query.token * args.output_token_stride;
  using Output = Pair<plan::Output>;
  store_global<plan::kAlignment>(row + 2 * channel, Output::pack(result.output.x * inverse, result.output.y * inverse),
                                 Output::pack(result.output.z * inverse, result.output.w * inverse));
  if (channel == 0 && args.lse != nullptr) {
    const int heads = args.kv_heads * plan::kHeadsPerKv;
    const int64 token = static_cast<int64>(batch) * plan::Queries::kTokens + query.token;
    args.lse[token * heads + query.head] = (result.reference + log2_fast(result.sum)) * kLn2;
  }
}

/// What a block ends with: the heads of a head group for each of `span` KV heads from kv_head on, of one batch entry.
struct Heads {
  int batch;
  int kv_head;
  int span;
  int head_group;

  __device__ __forceinline__ int rows() const { return span * plan::kHeadsPerBlock; }
};

/// Partial results of a sequence in the workspace: slots base + first, base + stride, base + 2 · stride …
struct PartialSlots {
  int count;
  int base;
  int first;
  int stride;
};

constexpr int kQuads = plan::kValueDim / 4;

/// Where the first warp that has a row of heads has left its sums and four channels of it.
struct RowInShared {
  uint32 stats;
  uint32 outputs;
};

/// Of all warps that have it: every span-th. A span is a power of two; from kSpan on the one it is is looked for, so
/// that all loads are in flight together and know where they go.
template <int kSpan = 1>
__device__ __forceinline__ Combined combine_warps(const RowInShared& row, int span) {
  if constexpr (kSpan == kRowWarps) {                 // one warp
    const float2 own = load_shared2(row.stats);       // access: loads of warps' sums
    const float4 output = load_shared4(row.outputs);  // access: loads of warps' outputs
    return {output, maximum(own.x, nothing().reference), own.y};
  } else {
    if (span != kSpan) return combine_warps<2 * kSpan>(row, span);
    constexpr int kCount = kRowWarps / kSpan;
    constexpr uint32 kRows = kSpan * plan::kHeadsPerBlock;  // from one warp to the next
    float2 stat[kCount];
    float4 value[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      stat[i] = load_shared2(row.stats + i * 8 * kRows);                   // access: loads of warps' sums
      value[i] = load_shared4(row.outputs + i * 4 * kMergePitch * kRows);  // access: loads of warps' outputs
    }
    Combined result = nothing();
    add(result, stat, value);
    return result;
  }
}

/// Four channels of a row of heads, of all warps that have it: row warp w has results of KV head w % span.
__device__ __forceinline__ Combined combine_warps(const WarpResults& results, const Heads& heads, int row, int quad) {
  return combine_warps(
      {shared_address(results.stats + row), shared_address(results.outputs + row * kMergePitch + 4 * quad)},
      heads.span);
}

/// Four channels of a row of the block's results, to the workspace.
__device__ __forceinline__ void store_partial(const GqaDecodeArguments& args, const Heads& heads, int slot, int row,
                                              int quad, const Combined& result) {
  const int64 at = static_cast<int64>(slot) * heads.rows() + row;
  reinterpret_cast<float4*>(args.partial)[at * kQuads + quad] = result.output;
  if (quad > 0) return;
  reinterpret_cast<float2*>(args.partial_stats)[at] = make_float2(result.reference, result.sum);
}

/// Four channels of a row, of the whole sequence.
__device__ __forceinline__ void finish_row(const GqaDecodeArguments& args, const Heads& heads, int row, int quad,
                                           const Combined& result) {
  const int kv_head = heads.kv_head + row / plan::kHeadsPerBlock;
  const int column = first_column(heads.head_group) + row % plan::kHeadsPerBlock;
  finish(args, heads.batch, plan::Queries::place_of(kv_head, column), 4 * quad, result);
}

/// Whether the lanes of a warp have the same row.
constexpr bool kRowsOfWholeWarps = kQuads % kWarpSize == 0;

__device__ __forceinline__ Parts parts_of(const GqaDecodeArguments& args, const PartialSlots& slots,
                                          const Heads& heads) {
  const uint32 slot_bytes = 16 * heads.rows() * kQuads;
  const uint32 slot_stats = 8 * heads.rows();
  return {reinterpret_cast<const char*>(args.partial) + static_cast<int64>(slots.base) * slot_bytes,
          reinterpret_cast<const char*>(args.partial_stats) + static_cast<int64>(slots.base) * slot_stats,
          slots.count,
          slots.stride * slot_bytes,
          16 * kQuads,
          slots.stride * slot_stats,
          slots.first * slot_bytes,
          slots.first * slot_stats};
}

/// A barrier of the warps that attend: family sm90 has others.
__device__ __forceinline__ void sync_warps() { asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory"); }

/// Where a block's results go, one of `slots`. One slot: nowhere, they are the sequence's.
struct Partials {
  PartialSlots slots;
  int own;          // slot
  uint32* counter;  // of blocks that have stored theirs
};

/// Merges the warps' results, then, in the block that is last, those of all blocks: four channels of one head per
/// thread and step. combine_blocks(parts, row, quad): how the latter are combined.
template <class CombineBlocks>
__device__ __forceinline__ void merge(const GqaDecodeArguments& args, const Partials& partials, const Heads& heads,
                                      const WarpResults& results, const CombineBlocks& combine_blocks) {
  const uint32 items = heads.rows() * kQuads;
  const int blocks = partials.slots.count;
  Parts parts = {};  // none yet
#pragma unroll 1
  while (true) {
    const bool is_of_warps = parts.count == 0;
#pragma unroll 1
    for (uint32 item = threadIdx.x; item < items; item += kThreads) {
      const int row = static_cast<int>(item / kQuads);
      const int quad = static_cast<int>(item % kQuads);
      if (row % plan::kHeadsPerBlock >= heads_in(heads.head_group)) continue;
      const Combined combined =
          is_of_warps ? combine_warps(results, heads, row, quad) : combine_blocks(parts, row, quad);
      if (is_of_warps && blocks > 1) {
        store_partial(args, heads, partials.own, row, quad, combined);
      } else {
        finish_row(args, heads, row, quad, combined);
      }
    }
    if (!is_of_warps || blocks == 1 || !last_block(partials.counter, blocks, results.arrived, sync_warps)) return;
    parts = parts_of(args, partials.slots, heads);
  }
}

}  // namespace cubit
