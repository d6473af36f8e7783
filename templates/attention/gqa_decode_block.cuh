// Block-level parts of GQA decode that the kernel families share around their main loops: masking, the warps' results
// in shared memory, their merge within the block and across splits, and the final output.
//
// A query row is one query head of one query token; a KV head has heads × query tokens of them. All query rows of a
// block belong to one warp. In the sm_90 kernel they may instead be distributed over kColumnGroups warps that work on
// the same K/V rows: warp w then has the K/V rows of row warp w / kColumnGroups and the query rows of group w %
// kColumnGroups.
//
// Shared memory of the warps' results: one word for last_block (two words for merge_partials), padded to 16 bytes; then
// floats [kRowWarps][kHeadsPerBlock][pitch]; then statistics [kRowWarps][kHeadsPerBlock][2]. partial_results.cuh
// describes how the results of several blocks are combined.
//
// The plan chooses the following roles. Each role is a header with a fixed interface:
//   plan::Cache   cache addressing, see kv_contiguous.cuh
//   plan::Queries query tokens: what a query row is and which positions it sees, see query_tokens.cuh. In this file,
//                 "head" counts the query heads of every query token separately
//   plan::Keys, plan::Values  number formats, equal or different (kv_rows16.cuh, kv_int4_rows.cuh, kv_bytes.cuh; each
//                 file serves both roles); whole warps call all functions. Both roles have:
//     Layout                        which scores a lane holds, see score_layout.cuh
//     kTilesPerStep                 tiles of 16 tokens that a warp processes at once: one tile, or all its tiles of a
//                                   stage
//     kRowBytes, kHeaderBytes, stage_byte(byte)   bytes of a cache row, bytes of the header at its beginning, and the
//                                   place in a stage's row of a byte of the cache row
//     clear_padding(stage, first row)   called once per stage before the first copy if headers are padded (sm_80
//                                   kernel)
//     Scales                        scales of a row in a separate tensor, see kv_scales.cuh
// Members of plan::Keys:
//     RawQuery, fetch_query(raw, rows, heads)   global loads of a block's query rows
//     Query, load_query(query, raw, scale)   conversion into the B operand, scaled as the format requires, see
//                                   query_operands.cuh
//     OneTile, kSharedQueryFactor   sm_80 kernel: the same two steps for a single head tile with the same operand
//                                   layout, and the factor for `scale` in that case
//     key_factor(args)              common factor of all keys
//     scores(query, stage, tile scales, scores)       scores of a step in base 2, [accumulator][element]
// Members of plan::Values:
//     ValueScales, load_value_scales(scales, stage, tile scales)   what accumulate needs to know about a tile's values
//                                   in advance; `peak` is the largest factor of a weight if kWeightsAreScaled;
//                                   kAnyFactor says that factors may also be small
//     scale_outputs(output, args)   multiplies by the common factor of all values
//     Accumulator, accumulate(output, softmax, stage, scales, weights), rescale(output, factors)
//     kSumsWeights, add_weights(softmax, output)   the accumulator sums the weights, and passes the sums to the softmax
//                                   at the end
//     store(output, dst, pitch)     stores unnormalised outputs as floats in shared memory
// Further roles:
//   plan::Stage   sm_80 kernel: where rows lie in a stage and which lanes copy them, see kv_stage.cuh
//   plan::Tokens  which tokens are read and seen, see tokens_all.cuh
//   plan::Score   modification of scores before masking, see score_steps.cuh
//   plan::Sink    attention sink that joins the softmax denominator, see sink_none.cuh
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

constexpr int kThreads = plan::kWarps * kWarpSize;  // of the consumer warps
constexpr int kRowWarps = plan::kWarps / plan::kColumnGroups;
constexpr int kTileTokens = lanes::kTileRows;
constexpr int kTileBytes = plan::kTileBytes;  // distance between tiles of keys, or of values, if a stage has several
constexpr int kStageTokens = kTileTokens * plan::kTilesPerStage;  // per warp
constexpr int kSteps = plan::kTilesPerStage / Keys::kTilesPerStep;
constexpr int kStepTokens = kTileTokens * Keys::kTilesPerStep;
constexpr int kStageBytes = plan::kStageBytes;
constexpr int kMergePitch = lanes::merge_pitch(plan::kValueDim, plan::kHeadsAreRows);

/// Query rows of a block. The last head group of a KV head may have fewer rows than the others.
__device__ __forceinline__ int heads_in(int head_group) {
  constexpr int kQueryRows = plan::Queries::kQueryRows;
  if constexpr (kQueryRows % plan::kHeadsPerBlock == 0) {
    return plan::kHeadsPerBlock;
  } else {
    return min(plan::kHeadsPerBlock, kQueryRows - head_group * plan::kHeadsPerBlock);
  }
}

/// First query row of a head group, among the query rows of its KV head.
__device__ __forceinline__ int first_query_row(int head_group) { return head_group * plan::kHeadsPerBlock; }

/// Index of this warp among the warps that work on different K/V rows.
__device__ __forceinline__ int row_warp_index() { return warp_index() / plan::kColumnGroups; }

/// First of the warp's kHeadsPerWarp query rows, among the query rows of its block.
__device__ __forceinline__ int first_query_row_of_warp() {
  if constexpr (plan::kColumnGroups == 1) return 0;
  return warp_index() % plan::kColumnGroups * plan::kHeadsPerWarp;
}

/// Query rows of a warp: `count` rows from `first` on, within a KV head. Rows beyond the last one duplicate the last
/// row, and their results are not stored.
struct QueryRows {
  int kv_head;
  int first;
  int count;

  __device__ __forceinline__ int clamped(int query_row) const { return first + min(query_row, count - 1); }
  __device__ __forceinline__ int head(int query_row) const {
    return plan::Queries::place_of(kv_head, clamped(query_row)).head;
  }
  __device__ __forceinline__ int query_position(int length, int query_row) const {
    return plan::Queries::query_position(length, clamped(query_row));
  }
};

/// Query rows of this warp; at least one. A warp that lies beyond the last query row duplicates that row.
__device__ __forceinline__ QueryRows query_rows_of_warp(int kv_head, int head_group) {
  const int first = first_query_row(head_group);
  const int count = heads_in(head_group);
  if constexpr (plan::kColumnGroups == 1) return {kv_head, first, count};
  const int before = min(first_query_row_of_warp(), count - 1);
  return {kv_head, first + before, min(count - before, plan::kHeadsPerWarp)};
}

/// Positions in the sequence of a warp's K/V rows of a stage: consecutive positions from `first` on.
struct ConsecutiveRows {
  int first;

  __device__ __forceinline__ int at(int row) const { return first + row; }
  __device__ __forceinline__ int end() const { return first + kStageTokens; }
};

/// Positions of a warp's K/V rows in the sm_90 kernel, where warps may take interleaved tokens: rows are 2^step_log2
/// positions apart.
struct InterleavedRows {
  int first;
  int step_log2;

  __device__ __forceinline__ int at(int row) const { return first + (row << step_log2); }
  __device__ __forceinline__ int end() const { return at(kStageTokens - 1) + 1; }
};

/// Initial reference exponent of a softmax. A query row whose tokens are all masked keeps the initial reference. With a
/// reference of minus infinity, subtracting it from scores of minus infinity would give NaN.
__device__ __forceinline__ float first_reference() {
  return plan::Tokens::kIsWindow || plan::Score::kMayMask ? kBelowEveryScore : plan::Queries::first_reference();
}

/// Score modification steps of the plan, for one sequence and the query rows of a warp.
class BlockScores {
 public:
  __device__ __forceinline__ BlockScores(const GqaDecodeArguments& args, int batch, const QueryRows& query_rows,
                                         int length)
      : steps_(args, query_rows), batch_(batch), query_rows_(query_rows), length_(length) {}

  /// Modifies the scores of a step's K/V rows, from row `first` on.
  template <class Rows>
  __device__ __forceinline__ void modify(float (&scores)[Layout::kTiles][4], const Rows& rows, int first) const {
    const int lane = lane_index<plan::kRecomputesLanes>();
#pragma unroll
    for (int tile = 0; tile < Layout::kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!Layout::has(i)) continue;
        const int set = Layout::set(tile);
        const int query_row = Layout::query_row(lane, set, Layout::head(i));
        const ScorePlace place{batch_, query_rows_.head(query_row), query_rows_.query_position(length_, query_row),
                               rows.at(first + Layout::token(lane, tile, i))};
        scores[tile][i] = steps_.apply(scores[tile][i], set, Layout::head(i), place);
      }
    }
  }

  __device__ __forceinline__ int query_position(int query_row) const {
    return query_rows_.query_position(length_, query_row);
  }

 private:
  plan::Score steps_;
  int batch_;
  QueryRows query_rows_;
  int length_;
};

/// Masks the scores of a step's K/V rows, from row `first` on: scores of positions that a query row does not see become
/// minus infinity.
template <class Rows>
__device__ __forceinline__ void mask_scores(float (&scores)[Layout::kTiles][4], const Rows& rows, int first,
                                            const plan::Queries& queries, const plan::Tokens& tokens,
                                            const BlockScores& steps) {
  const int lane = lane_index<plan::kRecomputesLanes>();
#pragma unroll
  for (int set = 0; set < Layout::kSets; ++set) {
    const int query_rows[2] = {Layout::query_row(lane, set, 0), Layout::query_row(lane, set, 1)};
    const decltype(queries.mask(0)) masks[2] = {queries.mask(query_rows[0]), queries.mask(query_rows[1])};
    const int positions[2] = {steps.query_position(query_rows[0]), steps.query_position(query_rows[1])};
#pragma unroll
    for (int tile = 0; tile < Layout::kTiles; ++tile) {
      if (Layout::set(tile) != set) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!Layout::has(i)) continue;
        const int head = Layout::head(i);
        const int position = rows.at(first + Layout::token(lane, tile, i));
        if (!masks[head].sees(position) || tokens.hides(position, positions[head]))
          scores[tile][i] = negative_infinity();
      }
    }
  }
}

__device__ __forceinline__ void fetch_queries(Keys::RawQuery& raw, const GqaDecodeArguments& args, int batch,
                                              const QueryRows& query_rows) {
  Keys::fetch_query(raw, plan::Queries::rows(args, batch, query_rows.kv_head, query_rows.first), query_rows.count);
}

/// Scales of a warp's tiles of a stage, if scales are separate tensors.
struct StageScales {
  Scales tiles[plan::kTilesPerStage];
};

/// Processes one warp's tiles of a stage: first the keys, then the values. Positions that `queries` does not see or
/// that `tokens` hides are masked.
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
  // Only one tile's scales stay in registers; the scales of the other tiles are loaded again at their use.
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

/// Completes the softmax after the main loop. Every lane that holds a query row then has the row's totals.
template <class Format>
__device__ __forceinline__ void finish_softmax(Softmax& softmax, const typename Format::Accumulator& output) {
  if constexpr (Format::kSumsWeights) Format::add_weights(softmax, output);
  softmax.finish();
}

/// Shared memory for the unnormalised results of a block's warps.
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

/// Stores a warp's reference exponents and sums, [kHeadsPerWarp].
__device__ __forceinline__ void store_stats(const Softmax& softmax, float2* dst) {
  const int lane = lane_index<plan::kRecomputesLanes>();
  if (!Layout::is_first(lane)) return;  // all lanes of a query row have its totals
#pragma unroll
  for (int set = 0; set < Layout::kSets; ++set) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = Layout::query_row(lane, set, i);
      if (head >= plan::kHeadsPerWarp) continue;
      dst[head] = softmax.stats(set, i);  // access: stores of warps' sums
    }
  }
}

/// Divides by the sum, rounds, and stores four channels; the thread with channel 0 also stores the log-sum-exp. A query
/// row that sees no token has sum 0: its output is zero, and its log-sum-exp is minus infinity.
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

/// Query rows whose results a block produces: one head group for each of `span` KV heads from kv_head on, for one batch
/// entry.
struct Heads {
  int batch;
  int kv_head;
  int span;
  int head_group;

  __device__ __forceinline__ int rows() const { return span * plan::kHeadsPerBlock; }
};

/// Workspace slots of a sequence's partial results: base + first, base + stride, base + 2 · stride, and so on.
struct PartialSlots {
  int count;
  int base;
  int first;
  int stride;
};

constexpr int kQuads = plan::kValueDim / 4;

/// Shared-memory addresses of a query row's statistics and of four of its channels, in the results of the first warp
/// that has the row.
struct RowInShared {
  uint32 stats;
  uint32 outputs;
};

/// Combines the results of all row warps that have the query row: every span-th warp. The span is a power of two. The
/// template searches for its value from kSpan on, so that all loads are in flight together and have constant offsets.
template <int kSpan = 1>
__device__ __forceinline__ Combined combine_warps(const RowInShared& row, int span) {
  if constexpr (kSpan == kRowWarps) {                 // one warp
    const float2 own = load_shared2(row.stats);       // access: loads of warps' sums
    const float4 output = load_shared4(row.outputs);  // access: loads of warps' outputs
    return {output, maximum(own.x, nothing().reference), own.y};
  } else {
    if (span != kSpan) return combine_warps<2 * kSpan>(row, span);
    constexpr int kCount = kRowWarps / kSpan;
    constexpr uint32 kRows = kSpan * plan::kHeadsPerBlock;  // from one such warp to the next
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

/// Combines four channels of a query row over all row warps that have it. Row warp w has results of KV head w % span.
__device__ __forceinline__ Combined combine_warps(const WarpResults& results, const Heads& heads, int row, int quad) {
  return combine_warps(
      {shared_address(results.stats + row), shared_address(results.outputs + row * kMergePitch + 4 * quad)},
      heads.span);
}

/// Stores four channels of a query row of the block's results in the workspace.
__device__ __forceinline__ void store_partial(const GqaDecodeArguments& args, const Heads& heads, int slot, int row,
                                              int quad, const Combined& result) {
  const int64 at = static_cast<int64>(slot) * heads.rows() + row;
  reinterpret_cast<float4*>(args.partial)[at * kQuads + quad] = result.output;
  if (quad > 0) return;
  reinterpret_cast<float2*>(args.partial_stats)[at] = make_float2(result.reference, result.sum);
}

/// Finishes four channels of a query row of the whole sequence.
__device__ __forceinline__ void finish_row(const GqaDecodeArguments& args, const Heads& heads, int row, int quad,
                                           const Combined& result) {
  const int kv_head = heads.kv_head + row / plan::kHeadsPerBlock;
  const int query_row = first_query_row(heads.head_group) + row % plan::kHeadsPerBlock;
  finish(args, heads.batch, plan::Queries::place_of(kv_head, query_row), 4 * quad, result);
}

/// True if all lanes of a warp work on the same query row.
constexpr bool kRowsOfWholeWarps = kQuads % kWarpSize == 0;

__device__ __forceinline__ PartialResults partials_in(const GqaDecodeArguments& args, const PartialSlots& slots,
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

/// Barrier of the consumer warps; the sm_90 kernel has producer warps that do not take part.
__device__ __forceinline__ void sync_warps() { asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory"); }

/// Workspace slot for a block's results, among the sequence's `slots`. If there is a single slot, the block's results
/// are the sequence's final results and are not stored there.
struct ResultSlot {
  PartialSlots slots;
  int own;          // slot of this block
  uint32* counter;  // counts the blocks that have stored their results
};

/// Merges the warps' results, and then, in the last block to arrive, the results of all blocks. Each thread handles
/// four channels of one query row per step. combine_blocks(partials, row, quad) combines the results of several blocks.
template <class CombineBlocks>
__device__ __forceinline__ void merge(const GqaDecodeArguments& args, const ResultSlot& destination, const Heads& heads,
                                      const WarpResults& results, const CombineBlocks& combine_blocks) {
  const uint32 items = heads.rows() * kQuads;
  const int blocks = destination.slots.count;
  PartialResults partials = {};  // empty: the warps' results come first
#pragma unroll 1
  while (true) {
    const bool is_of_warps = partials.count == 0;
#pragma unroll 1
    for (uint32 item = threadIdx.x; item < items; item += kThreads) {
      const int row = static_cast<int>(item / kQuads);
      const int quad = static_cast<int>(item % kQuads);
      if (row % plan::kHeadsPerBlock >= heads_in(heads.head_group)) continue;
      const Combined combined =
          is_of_warps ? combine_warps(results, heads, row, quad) : combine_blocks(partials, row, quad);
      if (is_of_warps && blocks > 1) {
        store_partial(args, heads, destination.own, row, quad, combined);
      } else {
        finish_row(args, heads, row, quad, combined);
      }
    }
    if (!is_of_warps || blocks == 1 || !last_block(destination.counter, blocks, results.arrived, sync_warps)) return;
    partials = partials_in(args, destination.slots, heads);
  }
}

}  // namespace cubit
