// Block-level parts of GQA decode that the kernel families share around their main loops: query rows, masking, and the
// work of one warp on a stage. warp_results.cuh continues behind the main loop.
//
// A query row is one query head of one query token; a KV head has heads × query tokens of them. Usually every warp
// processes all query rows of the block (of one KV head, if the block has several), and the warps of a KV head differ
// in their K/V rows. In the sm_90 kernel, kQueryGroups neighbouring warps may process the same K/V rows and divide the
// query rows among them. Warp w then has the K/V rows of row warp w / kQueryGroups and the query rows of query group
// w % kQueryGroups.
//
// The plan chooses the following roles. Each role is a header with a fixed interface:
//   plan::Cache   cache addressing, see kv_contiguous.cuh
//   plan::Queries query tokens: what a query row is and which positions it sees, see query_tokens.cuh. In this file and
//                 in the formats, "head" means a query row, and a head tile is 8 query rows
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
//     OneTile, kSharedQueryFactor   sm_80 kernel, query operands in shared memory: OneTile is a format with the same
//                                   operand layout that makes the operands of a single head tile. `scale` must then be
//                                   multiplied by kSharedQueryFactor
//     key_factor(args)              common factor of all keys
//     scores(query, stage, tile scales, scores)       scaled scores of a step in base 2, [accumulator][element] as
//                                   Layout says
// Members of plan::Values:
//     ValueScales, load_value_scales(scales, stage, tile scales)   what accumulate needs to know about a tile's values
//                                   in advance; `peak` is the largest factor of a weight if kWeightsAreScaled;
//                                   kAnyFactor says that factors may also be small
//     scale_outputs(output, args)   multiplies by the common factor of all values
//     Accumulator                   unnormalised outputs of the warp
//     accumulate(output, softmax, stage, scales, weights)   adds the products of a step's weights and values to
//                                   `output`, and the weights as rounded to the softmax sums (unless kSumsWeights)
//     rescale(output, factors)      multiplies the outputs of each query row by the row's factor
//     kSumsWeights, add_weights(softmax, output)   the accumulator sums the weights, and passes the sums to the softmax
//                                   at the end
//     store(output, dst, pitch)     stores the unnormalised outputs as floats: dst[head * pitch + channel]
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
#include "kernels/attention/gqa_decode_arguments.h"
#include "kv_format/kv_scales.cuh"

namespace cubit {

using Keys = plan::Keys;
using Values = plan::Values;
using Scales = TileScales<Keys::Scales, Values::Scales>;
using Layout = Keys::Layout;
using Softmax = OnlineSoftmax<Layout, Values::kAnyFactor, !Values::kSumsWeights>;

constexpr int kThreads = plan::kWarps * kWarpSize;  // threads of the consumer warps
constexpr int kRowWarps = plan::kWarps / plan::kQueryGroups;
constexpr int kTileTokens = lanes::kTileRows;
constexpr int kTileBytes = plan::kTileBytes;  // distance between tiles of keys, or of values, if a stage has several
constexpr int kStageTokens = kTileTokens * plan::kTilesPerStage;  // per warp
constexpr int kSteps = plan::kTilesPerStage / Keys::kTilesPerStep;
constexpr int kStepTokens = kTileTokens * Keys::kTilesPerStep;
constexpr int kStageBytes = plan::kStageBytes;
constexpr int kMergePitch = lanes::merge_pitch(plan::kValueDim, plan::kHeadsAreM);

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
__device__ __forceinline__ int row_warp_index() { return warp_index() / plan::kQueryGroups; }

/// First of the warp's kHeadsPerWarp query rows, among the query rows of its block.
__device__ __forceinline__ int first_query_row_of_warp() {
  if constexpr (plan::kQueryGroups == 1) return 0;
  return warp_index() % plan::kQueryGroups * plan::kHeadsPerWarp;
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
  if constexpr (plan::kQueryGroups == 1) return {kv_head, first, count};
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
/// that `tokens` hides are masked. All lanes of the warp call the function, and with plan::kHeadsAreM all warps of the
/// warpgroup. Before the call, the copies of the warp's rows must be complete and visible to the warp. When the
/// function returns, other lanes may still read the stage, so the stage may be filled again only after a __syncwarp().
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
  // Only the scales of step 0 stay in registers, because the loop ends with that step. The scales of later steps are
  // loaded again where they are used.
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

}  // namespace cubit
