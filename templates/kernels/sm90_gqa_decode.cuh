// Decode attention for grouped queries: the last tokens of every sequence, usually one, against its KV cache.
// Family sm90: bulk copies with transaction barriers, even shares, ldmatrix, mma.sync; sm_90 and later.
//
// What is computed, the tile and the roles: as in sm80_gqa_decode.cuh and gqa_decode_block.cuh. What differs:
//
// - A block takes a span of neighbouring KV heads; warp w has one of them, w % span. A stage has as many rows for each
//   warp as its tiles have. Where a warp's registers do not hold all columns of a KV head, several warps have the same
//   rows, each with some of the columns: the cache is read once. Below, `warps` are those that have different rows. Of
//   many columns (plan::kHeadsAreRows, sm_90a alone) they are warpgroups, whose products are of all the columns:
//   products by heads.
// - kCopyWarps more warps do nothing but copy. Where the rows of a span follow one another in the cache, one thread
//   starts copies of boxes by tensor maps (TMA). One box has the rows of all warps where tokens follow one another as
//   well: warps that share a head then take tokens in turn. Else it has those of one span: such a warp takes
//   kStageTokens tokens, the next that has its head the tokens behind them. Of a paged cache a box has rows of one
//   page, and all copying warps start some. See tma_producer.cuh. Elsewhere, and for the last tokens of a sequence, the
//   warps copy pieces: 16 bytes per lane at a time, of unaligned rows (below) fewer. See vector_copy_producer.cuh.
// - A block takes an even share of all stages (balanced_schedule.cuh), one segment of a sequence after the other. Copies run
//   ahead across segments: while the results of one are merged, stages of the next arrive. Two blocks that have a
//   sequence to themselves may be a cluster, which merges it without the workspace (cluster_merge.cuh).
//
//   row r of a stage:  | row r of warp 0 | row r of warp 1 | … |
//
// Rows are swizzled as tensor maps do: 16-byte chunks within parts of 128 bytes, by the 128 bytes' number (within 64 or
// 32 where a row is no multiple of more). With rows of an odd number of parts a warp's rows are then in different
// banks. Rows of an even number are cut, and the stage has the first parts of all rows, then all second ones.
//
// Unaligned rows, which are no multiple of 16 bytes (int4_rows of one group or two, alignment=4 or 8), are not
// swizzled: a stage has a row of plan::kWarpsAbreast warps for each of theirs, as few as make 16 bytes' multiple, and
// behind those of the first such warps the rows of the next. Such a row is an odd number of 16 bytes, so that a warp's
// rows are in different banks. A span has at most as many heads as there are warps abreast, which take tokens in turn
// where it has fewer: a stage's rows lie in the order of the cache, and a box has those of the warps that are abreast.
// Pieces are of plan::kPieceBytes, or of 16 where boxes would do but for a sequence's end.
//
// Shared memory: stage 0 { rows of keys, rows of values }, stage 1 …; from kResultsAt on the results of
// gqa_decode_block.cuh; from kBarriersAt on two barriers per stage, `full` and `empty`, and two per place of a segment,
// `told` and `heard`; from kScratchAt on BlockState.
//
// Who waits for whom: the copying warps wait until the others have arrived at a stage's `empty`, and they until the
// copies have at `full`. The copies of boxes of a block's very first stage are started before the block meets (not
// those of pages): that much sooner all is over. Likewise a segment is told before its first stage is copied, or that
// one while it is, and heard when its queries are on their way: after its very first stage a block waits for that,
// because loads that come after many copies end after them. Where a segment ends the warps that attend meet when all
// results are stored, before the next are, and in a merge with those of other blocks (merge_slices.cuh). Where the
// blocks of a pair have read their last stage the thread that copied it says so to the other block, which then sends
// its sums there.
//
// Scales that are tensors of their own are no part of the boxes: each warp that attends loads its rows' into registers,
// those of a stage in the time of the one before, the first with the segment's queries (ScaleLoads).
//
// How fast a block copies boxes: where products leave no time to catch up in, at the memory's pace (copy_pacing.cuh); pieces,
// which take longer than that, count for nothing. What boxes have brought the L2 lets go of first, where the plan says
// so.
//
// Where all blocks would be in the same part of the memory at the same time, they begin in the middle of their segments
// and come to the beginning last (StageWalk).
//
// The copying warps need fewer registers than the others: where the plan says so they give them some.
//
// With plain scores of one query token rows are counted, not tokens. Else positions are those of tokens: see
// RowsInTurn. Stages of which a window leaves nothing to see are in no block's share; those of which it leaves some
// tokens are copied in pieces.
//
// The kernel before in the stream, where the launch overlaps with it, is waited for before anything is read.
//
// Rows at or beyond the length are not read: they arrive as zeros.
//
// PTX ISA: "cp.async.bulk.tensor", "cp.async", "mbarrier", "bar", "barrier.cluster", "mapa", "st.async", and those
// of sm80_gqa_decode.cuh.
#include "plan.cuh"

#include "attention/gqa_decode_block.cuh"
#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "kv_format/kv_contiguous.cuh"
#include "kv_format/kv_paged.cuh"
#include "pipeline/balanced_schedule.cuh"
#include "pipeline/cluster_merge.cuh"
#include "pipeline/copy_pacing.cuh"
#include "pipeline/deferred_merge.cuh"
#include "pipeline/merge_slices.cuh"
#include "pipeline/producer_stage.cuh"
#include "pipeline/tma_producer.cuh"
#include "pipeline/two_cta_cluster.cuh"
#include "pipeline/vector_copy_producer.cuh"

namespace cubit {

constexpr int kAllWarps = plan::kWarps + plan::kCopyWarps;

using Walk = Walker<plan::kFlushStages, plan::kGapStages, count_stages>;

/// A segment as those that attend are told of it: two words of 16 bytes, all of which are written.
struct alignas(16) ToldSegment {
  Segment segment;
  Owners owners;  // of its sequence
  int kv_head;    // the first of its span
};

struct BlockState {
  ToldSegment segments[plan::kSegments];
  StoredPart parts[2];  // of a segment and of the one before, which is merged when this one's results are stored
  // Each sequence is a cluster's, see cluster_merge.cuh, and this block has half of one: a grid may be larger, and blocks
  // without a share end at once, after which nobody may tell them anything.
  int are_pairs;
};
static_assert(sizeof(BlockState) <= plan::kScratchBytes);

/// Once the block has met. Read when it is asked for: a register of its own would be one too many in the loop.
__device__ __forceinline__ bool are_pairs(const BlockState& state) {
  return plan::kMergesPairs && state.are_pairs != 0;
}

using StagePlace = RingPlace<plan::kStages>;

/// As RingPlace, in one register.
struct SegmentPlace {
  uint32 turn = 0;

  __device__ __forceinline__ uint32 index() const { return turn % plan::kSegments; }
  __device__ __forceinline__ uint32 parity() const { return turn / plan::kSegments & 1; }
  __device__ __forceinline__ void advance() { ++turn; }
  static_assert((plan::kSegments & (plan::kSegments - 1)) == 0, "turns go round");
};

/// Addresses in shared memory.
struct Rings {
  uint32 base;

  __device__ __forceinline__ uint32 stage(StagePlace place) const { return base + place.index * kStageBytes; }
  __device__ __forceinline__ uint32 full(StagePlace place) const { return barrier(place.index); }
  __device__ __forceinline__ uint32 empty(StagePlace place) const { return barrier(place.index) + 8; }
  __device__ __forceinline__ uint32 told(SegmentPlace place) const { return barrier(plan::kStages + place.index()); }
  __device__ __forceinline__ uint32 heard(SegmentPlace place) const {
    return barrier(plan::kStages + place.index()) + 8;
  }
  __device__ __forceinline__ PairBarriers of_pair() const {
    const uint32 both = barrier(plan::kStages + plan::kSegments);
    return {both, both + 8};
  }

  /// By one thread: of several each would wait for the others.
  __device__ __forceinline__ void init_barriers() const {
#pragma unroll
    for (int index = 0; index < plan::kStages + plan::kSegments; ++index) {
      init_barrier(barrier(index), index < plan::kStages ? kCopyThreads : 1);
      init_barrier(barrier(index) + 8, plan::kWarps);
    }
    if constexpr (plan::kMergesPairs) of_pair().init();
    fence_barrier_init();
  }

 private:
  __device__ __forceinline__ uint32 barrier(int pair) const { return base + plan::kBarriersAt + 16 * pair; }
};

/// Whether a row counts like any other that a sequence has: then rows of a warp are counted, not tokens.
constexpr bool kCountsRows = plan::Queries::kTokens == 1 && plan::Score::kIsPlain && !plan::Tokens::kIsWindow;

/// The first of the threads that copy, which makes the barriers and starts the copies of boxes.
__device__ __forceinline__ bool is_first_copying() { return threadIdx.x == plan::kWarps * kWarpSize; }

/// By that thread, before any other knows of the barriers: what a block waits for longest is its very first stage. Not
/// where that is of pieces, nor of pages, whose boxes all copying warps start.
__device__ __forceinline__ void begin_copies(const Arguments& args, const Segment& segment, Rings rings) {
  if (plan::Cache::kIsPaged || segment.batch < 0 || segment.first == segment.last) return;
  const int stage = StageWalk(args, segment).stage();
  if (!is_of_boxes(args, tokens_in(args, segment, stage))) return;
  const StagePlace place;
  copy_boxes(args, segment, stage, rings.stage(place), rings.full(place));
}

/// By the first of the threads that copy: those that attend are told of a segment, or that there is none left.
__device__ __forceinline__ void tell_segment(const Arguments& args, const Walk& walk, const Cursor& cursor,
                                             const Segment& segment, ToldSegment (&segments)[plan::kSegments],
                                             SegmentPlace place, Rings rings) {
  wait_barrier(rings.heard(place), place.parity() ^ 1);  // the first time round at once
  const bool is_one = segment.batch >= 0;
  segments[place.index()] = {segment, is_one ? walk.owners_of_last(cursor) : Owners{}, first_kv_head(args, segment)};
  arrive(rings.told(place));
}

/// The copying warps, whose stage is free. `are_under_way`: the block's very first boxes, but for pages.
__device__ __forceinline__ void copy_stage_in_boxes(const Arguments& args, const Segment& segment, int stage,
                                                    StagePlace place, bool are_under_way, PageWindow& pages,
                                                    Rings rings) {
  const uint32 full = rings.full(place);
  // Every warp arrives, so that none falls two rounds behind and takes one for the other.
  __syncwarp();
  if (!is_first_copying()) {
    if (lane_index() == 0) arrive(full, kWarpSize);
  } else {
    arrive(full, kWarpSize - 1);
    if (plan::Cache::kIsPaged) {
      expect_bytes(full, 2 * kHalfStage);
    } else if (!are_under_way) {
      fence_async_proxy();  // what cp.async has written there came before
      copy_boxes(args, segment, stage, rings.stage(place), full);
    }
  }
  if (plan::Cache::kIsPaged) {
    // The same; where only a segment's last stage is copied in pieces once round the ring in the next, for it
    // waits for the pages that are being looked up.
    if (!kInOrder || stage < segment.first + plan::kStages) fence_async_proxy();
    pages.copy(segment, stage, rings.stage(place), full);
  }
}

/// The copying warps, from the block's first segment on, for which begin_copies has been called. The place behind the
/// last stage.
__device__ __forceinline__ StagePlace copy_segments(const Arguments& args, const Walk& walk, Cursor cursor,
                                                    Segment segment, PageWindow& pages,
                                                    ToldSegment (&segments)[plan::kSegments], Rings rings) {
  const bool is_first = is_first_copying();
  Pace<plan::kStagesAtOnce> pace(static_cast<uint32>(static_cast<uint64>(args.pace) * walk.blocks() >> 10));
  StagePlace place;
  SegmentPlace told;
  bool is_very_first = segment.first != segment.last;  // of an empty segment nothing is under way, nor waited for
  bool are_looked_up = true;                           // the segment's first pages
#pragma unroll 1
  while (true) {
    if (is_first) tell_segment(args, walk, cursor, segment, segments, told, rings);
    if (segment.batch < 0) break;
    if (plan::Cache::kIsPaged && !are_looked_up) pages.begin(segment);
    are_looked_up = false;
    const plan::Cache cache = plan::Cache::rows(args, segment.batch, first_kv_head(args, segment));
    Pieces<plan::Cache> pieces;
#pragma unroll 1
    for (StageWalk walked(args, segment); !walked.is_over(); walked.advance()) {
      const int stage = walked.stage();
      const StageTokens tokens = tokens_in(args, segment, stage);
      const bool has_boxes = is_of_boxes(args, tokens);
      if (plan::Cache::kIsPaged && has_boxes) pages.reach(segment, stage);
      if (!has_boxes) pieces.reach(args, cache, segment, stage);
      if (is_first && has_boxes) pace.wait();
      wait_barrier(rings.empty(place), place.parity ^ 1);  // the first time round at once
      if (has_boxes) {
        copy_stage_in_boxes(args, segment, stage, place, is_very_first, pages, rings);
      } else {
        pieces.copy(args, cache, segment, stage, tokens, rings.stage(place));
        arrive_after_copies(rings.full(place));
      }
      place.advance();
      if (is_very_first) wait_barrier(rings.heard(told), told.parity());
      is_very_first = false;
    }
    told.advance();
    segment = walk.next(cursor);
  }
  wait_copies<0>();
  return place;
}

/// Of the warp.
__device__ __forceinline__ BlockColumns columns_of(const GqaDecodeArguments& args, const ToldSegment& told) {
  const int kv_head = told.kv_head + (row_warp_index() & ((1 << args.span_log2) - 1));
  return columns_of_warp(kv_head, head_group_of(told.segment));
}

/// Scales that are tensors of their own, of the stage that a warp attends to next. They are on their way, as are, of a
/// paged cache, the places of its rows in the stage behind.
struct NextScales {
  StageScales stage;
  plan::Cache::Place places[plan::kTilesPerStage];
};

/// That a thread of a merge has under way, while scales of groups wait for the next segment.
constexpr int kLoadedParts = sizeof(StageScales) > 32 ? kPartsOfStep / 2 : kPartsOfStep;

/// Of a segment, by a warp that attends: loads of its rows' scales, each stage's in the time of the one before.
template <bool kAny>
class ScaleLoads {
 public:
  __device__ __forceinline__ ScaleLoads(const GqaDecodeArguments& args, const ToldSegment& told)
      : args_(args),
        cache_(plan::Cache::rows(args, told.segment.batch, columns_of(args, told).kv_head)),
        rows_(Scales::rows(cache_)),
        segment_(told.segment),
        tokens_(args, told.segment.length, plan::Queries::query_position(told.segment.length, 0)) {}

  /// Of the segment's first stage.
  __device__ __forceinline__ void begin(NextScales& next) const {
    if (segment_.first == segment_.last) return;
    const StageWalk walk(args_, segment_);
    if constexpr (plan::Cache::kIsPaged) look_up(next, walk.stage());
    fetch(next, walk);
  }

  /// Of each stage behind it.
  __device__ __forceinline__ void fetch(NextScales& next, StageWalk walk) const {
    const int stage = walk.stage();
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
      walk.advance();
      look_up(next, walk.is_over() ? stage : walk.stage());
    }
  }

 private:
  /// Of the lane's row of a tile.
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
  Segment segment_;
  plan::Tokens tokens_;
};

template <>
class ScaleLoads<false> {
 public:
  __device__ __forceinline__ ScaleLoads(const GqaDecodeArguments&, const ToldSegment&) {}
  __device__ __forceinline__ void begin(NextScales&) const {}
  __device__ __forceinline__ void fetch(NextScales&, StageWalk) const {}
};

/// The warps that attend: the block's next segment, and the loads of its queries and of its first scales, after which
/// it is heard.
__device__ __forceinline__ ToldSegment hear_segment(const GqaDecodeArguments& args,
                                                    const ToldSegment (&segments)[plan::kSegments], Rings rings,
                                                    SegmentPlace& place, Keys::RawQuery& raw, NextScales& scales) {
  wait_barrier(rings.told(place), place.parity());
  const ToldSegment told = segments[place.index()];
  const Segment& segment = told.segment;
  if (segment.batch < 0) return told;
  fetch_queries(raw, args, segment.batch, columns_of(args, told));
  ScaleLoads<Scales::kAny>(args, told).begin(scales);
  __syncwarp();
  if (elect_one()) arrive(rings.heard(place));
  place.advance();
  return told;
}

/// Rows of a stage that the warp has, of so many tokens from the stage's first on; zero or less: none.
__device__ __forceinline__ int rows_of_warp(const GqaDecodeArguments& args, int tokens_left, int warp) {
  const int tokens = tokens_left - token_of(args, 0, warp);
  return min((tokens + (1 << args.row_step_log2) - 1) >> args.row_step_log2, kStageTokens);
}

/// What the columns of a warp see of a segment's sequence, and what their scores go through; not asked where rows are
/// counted.
struct Sights {
  plan::Queries queries;
  plan::Tokens tokens;
  BlockScores steps;

  static __device__ __forceinline__ Sights of(const GqaDecodeArguments& args, const ToldSegment& told) {
    const int length = told.segment.length;
    const plan::Tokens tokens(args, length, plan::Queries::query_position(length, 0));
    const BlockColumns columns = columns_of(args, told);
    return {plan::Queries::of_block(args, told.segment.batch, length, columns.first), tokens,
            BlockScores(args, told.segment.batch, columns, length)};
  }
};

/// Tensor cores read a stage by the asynchronous proxy, where heads are rows: what cp.async has written comes before.
__device__ __forceinline__ void settle_pieces(const GqaDecodeArguments& args, const Segment& segment, int stage) {
  if constexpr (!plan::kHeadsAreRows) return;
  if (!is_of_boxes(args, tokens_in(args, segment, stage))) fence_async_proxy();
}

/// A warp's work on its rows of a stage, where it has any. A template, so that only one of both is compiled.
template <class Queries = plan::Queries, class Tokens = plan::Tokens>
__device__ __forceinline__ void attend_stage(const GqaDecodeArguments& args, const Keys::Query& query, uint32 rows_at,
                                             const Segment& segment, const StageWalk& walked, const Sights& sights,
                                             Softmax& softmax, Values::Accumulator& output, const StageScales& scales) {
  const int warp = row_warp_index();
  if constexpr (kCountsRows) {
    const int rows = rows_of_warp(args, walked.tokens_left(), warp);
    if (rows > 0) {
      settle_pieces(args, segment, walked.stage());
      attend(query, rows_at, NeighbouringRows{0}, Queries(rows), Tokens(rows), softmax, output, sights.steps, scales);
    }
  } else {
    const int stage = walked.stage();
    const RowsInTurn rows{(stage << args.stage_tokens_log2) + token_of(args, 0, warp), args.row_step_log2};
    if (rows.first < segment.length) {
      settle_pieces(args, segment, stage);
      attend(query, rows_at, rows, sights.queries, sights.tokens, softmax, output, sights.steps, scales);
    }
  }
}

/// The copying warps, from the block's first instruction for them to the last.
__device__ __forceinline__ void copy_all(const Arguments& args, BlockState& state, Rings rings) {
  Walk walk(args);
  Cursor cursor;
  const Segment first = walk.begin(cursor);
  PageWindow pages(args);
  if (plan::Cache::kIsPaged) pages.begin(first);
  if (is_first_copying()) begin_copies(args, first, rings);
  if (plan::kMergesPairs && is_first_copying())
    state.are_pairs = first.batch >= 0 && blocks_of_cluster() == kBlocksOfPair && walk.is_of_pairs();
  __syncthreads();
  give_registers<plan::kCopyRegisters>();
  if (are_pairs(state)) arrive_in_cluster();
  const StagePlace end = copy_segments(args, walk, cursor, first, pages, state.segments, rings);
  if (are_pairs(state)) {
    wait_for_cluster();
    if (is_first_copying()) give_stages(rings, end, plan::kStages, rings.of_pair().free);
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(cubit::kAllWarps * 32, plan::kBlocksPerSm)
    gqa_decode(const __grid_constant__ cubit::Arguments args) {
  using namespace cubit;
  extern __shared__ __align__(1024) unsigned char shared[];
  BlockState& state = *reinterpret_cast<BlockState*>(shared + plan::kScratchAt);
  const Rings rings{shared_address(shared)};
  const int warp = warp_index();
  allow_next_kernel();
  prefetch_lengths(args);
  if (threadIdx.x == 0 && args.boxes != 0) {
    prefetch_map(args.keys);
    prefetch_map(args.values);
  }
  if (is_first_copying()) rings.init_barriers();
  wait_for_previous_kernel();
  if (warp >= plan::kWarps) return copy_all(args, state, rings);

  if (threadIdx.x == 0) LateMerges<kLoadedParts>::begin(state.parts);
  __syncthreads();
  if (are_pairs(state)) arrive_in_cluster();
  take_registers<plan::kAttendRegisters>();
  const WarpResults results = results_in(shared + plan::kResultsAt);
  const int first_result = row_warp_index() * plan::kHeadsPerBlock + first_column_of_warp();
  StagePlace place;
  SegmentPlace heard;
  Keys::RawQuery raw;
  NextScales next_scales;
  const float query_factor = args.scale_log2 * Keys::key_factor(args);
  ToldSegment next = hear_segment(args, state.segments, rings, heard, raw, next_scales);
  LateMerges<kLoadedParts> merges(args, state.parts, results);
#pragma unroll 1
  while (next.segment.batch >= 0) {
    const Segment segment = next.segment;
    const Owners owners = next.owners;
    const int kv_head = next.kv_head;
    const Sights sights = Sights::of(args, next);
    Softmax softmax(first_reference());
    Values::Accumulator output;
    {
      Keys::Query query;
      Keys::load_query(query, raw, query_factor);
      const ScaleLoads<Scales::kAny> loads(args, next);
#pragma unroll 1
      for (StageWalk walked(args, segment); !walked.is_over();) {
        const StageScales scales = next_scales.stage;
        const StageWalk here = walked;
        walked.advance();
        if (!walked.is_over()) loads.fetch(next_scales, walked);
        wait_barrier(rings.full(place), place.parity);
        attend_stage(args, query, rings.stage(place), segment, here, sights, softmax, output, scales);
        __syncwarp();  // every lane has read the stage
        if (elect_one()) arrive(rings.empty(place));
        place.advance();
      }
    }
    next = hear_segment(args, state.segments, rings, heard, raw, next_scales);
    finish_softmax<Values>(softmax, output);
    Values::scale_outputs(output, args);
    Values::store(output, results.outputs + first_result * kMergePitch, kMergePitch);
    store_stats(softmax, results.stats + first_result);
    sync_warps();
    const StoredPart own = {owners, {segment.batch, kv_head, 1 << args.span_log2, head_group_of(segment)}};
    if (are_pairs(state)) {
      wait_for_cluster();  // as all who have arrived
      return merge_pair(args, own.heads, results, rings.base, rings.of_pair());
    }
    merges.store(own, next.segment.batch < 0);
  }
}
