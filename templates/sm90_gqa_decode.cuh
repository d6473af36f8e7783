// Decode attention for grouped queries: one new token per sequence against its KV cache.
// Family sm90: bulk copies with transaction barriers, even shares, ldmatrix, mma.sync; sm_90 and later.
//
// What is computed, the tile and the roles: as in sm80_gqa_decode.cuh and gqa_decode_block.cuh. What differs:
//
// - A block takes a span of neighbouring KV heads; warp w has one of them, w % span. A stage has as many rows for each warp
//   as its tiles have.
// - kCopyWarps more warps do nothing but copy. Where the rows of a span follow one another in the cache, one thread starts
//   copies of boxes by tensor maps (TMA). One box has the rows of all warps where tokens follow one another as well: warps
//   that share a head then take tokens in turn. Else it has those of one span: such a warp takes kStageTokens tokens, the
//   next that has its head the tokens behind them. Elsewhere, and for the last tokens of a sequence, the warps copy 16 bytes
//   per lane at a time.
// - A block takes an even share of all stages (even_share.cuh), one segment of a sequence after the other. Copies run ahead
//   across segments: while the results of one are merged, stages of the next arrive.
//
//   row r of a stage:  | row r of warp 0 | row r of warp 1 | … |
//
// Rows are swizzled as tensor maps do: 16-byte chunks within parts of 128 bytes, by the 128 bytes' number (within 64 or 32
// where a row is no multiple of more). With rows of an odd number of parts a warp's rows are then in different banks. Rows
// of an even number are cut, and the stage has the first parts of all rows, then all second ones.
//
// Shared memory: stage 0 { rows of keys, rows of values }, stage 1 …; from kResultsAt on the results of
// gqa_decode_block.cuh; from kBarriersAt on two barriers per stage, `full` and `empty`, and two per place of a segment, `told`
// and `heard`; from kScratchAt on BlockState.
//
// Who waits for whom: the copying warps wait until the others have arrived at a stage's `empty`, and they until the copies
// have at `full`. Likewise a segment is told before its first stage is copied, and heard when its queries are on their way:
// after its very first stage a block waits for that, because loads that come after many copies end after them. Where
// a segment ends the warps that attend meet when all results are stored, before the next are, and twice in each merge with
// those of other blocks.
//
// The copying warps need fewer registers than the others: where the plan says so they give them some.
//
// Rows are counted, not tokens: the plan has all tokens and plain scores.
//
// The kernel before in the stream, where the launch overlaps with it, is waited for before anything is read.
//
// Rows at or beyond the length are not read: they arrive as zeros.
//
// PTX ISA: "cp.async.bulk.tensor", "cp.async", "mbarrier", "bar", and those of sm80_gqa_decode.cuh.
#include "plan.cuh"

#include "bulk_copies.cuh"
#include "copies.cuh"
#include "even_share.cuh"
#include "gqa_decode_arguments.h"
#include "gqa_decode_block.cuh"
#include "overlap.cuh"
#include "types.cuh"

namespace cubit {

constexpr int kAllWarps = plan::kWarps + plan::kCopyWarps;
static_assert(plan::Queries::kTokens == 1);
constexpr int kCopyThreads = plan::kCopyWarps * kWarpSize;

/// The maps' dimensions: 8 bytes, parts of a box's row and those rows in the order in which the stage has them, spans, batch.
struct Arguments : GqaDecodeArguments {
  TensorMap keys;
  TensorMap values;
};

using Walk = Walker<kAllWarps, plan::kFlushStages>;

struct BlockState {
  Walk::Scratch walk;
  Segment segments[plan::kSegments];
};
static_assert(sizeof(BlockState) <= plan::kScratchBytes);

using StagePlace = RingPlace<plan::kStages>;
using SegmentPlace = RingPlace<plan::kSegments>;

constexpr uint32 kHalfStage = kStageBytes / 2;  // keys, or values

/// Addresses in shared memory.
struct Rings {
  uint32 base;

  __device__ __forceinline__ uint32 stage(StagePlace place) const { return base + place.index * kStageBytes; }
  __device__ __forceinline__ uint32 full(StagePlace place) const { return barrier(place.index); }
  __device__ __forceinline__ uint32 empty(StagePlace place) const { return barrier(place.index) + 8; }
  __device__ __forceinline__ uint32 told(SegmentPlace place) const { return barrier(plan::kStages + place.index); }
  __device__ __forceinline__ uint32 heard(SegmentPlace place) const { return barrier(plan::kStages + place.index) + 8; }

  /// By the first threads of the block, one each.
  __device__ __forceinline__ void init_barriers() const {
    const int index = static_cast<int>(threadIdx.x);
    if (index >= plan::kStages + plan::kSegments) return;
    init_barrier(barrier(index), index < plan::kStages ? kCopyThreads : 1);
    init_barrier(barrier(index) + 8, plan::kWarps);
    fence_barrier_init();
  }

 private:
  __device__ __forceinline__ uint32 barrier(int pair) const { return base + plan::kBarriersAt + 16 * pair; }
};

__device__ __forceinline__ int first_kv_head(const GqaDecodeArguments& args, const Segment& segment) {
  return segment.head / plan::kHeadGroups << args.span_log2;
}
__device__ __forceinline__ int head_group_of(const Segment& segment) { return segment.head % plan::kHeadGroups; }

/// By all lanes of the copying warps, 16 bytes each at a time; zeros for what is beyond `tokens`.
__device__ __forceinline__ void copy_pieces(const GqaDecodeArguments& args, const plan::Cache& cache, int first,
                                            int tokens, uint32 dst) {
  constexpr int kPieces = kHalfStage / 16;
  const CacheRows keys = cache.keys(first);
  const CacheRows values = cache.values(first);
  const int thread = static_cast<int>(threadIdx.x) - plan::kWarps * kWarpSize;
#pragma unroll 4
  for (int piece = thread; piece < 2 * kPieces; piece += kCopyThreads) {
    const bool is_value = piece >= kPieces;
    const lanes::Place at = lanes::bulk_piece(piece % kPieces, plan::kWarps * Keys::kRowBytes);
    const int warp = at.byte / Keys::kRowBytes;
    const int byte = at.byte % Keys::kRowBytes;
    const int token = (at.row << args.row_step_log2) + (warp >> args.span_log2 << args.warp_step_log2);
    const int head = warp & ((1 << args.span_log2) - 1);
    const char* const src =
        is_value ? values.row(token) + head * args.value_head_stride : keys.row(token) + head * args.key_head_stride;
    const uint32 place = plan::kv_stage(at.row, at.byte) + (is_value ? kHalfStage : 0);
    copy_async<16>(dst + place, src + byte, token < tokens);  // access: cp.async of rows
  }
}

/// By one thread: all boxes of a stage, so that a box's rows are those of one span, or of all warps.
__device__ __forceinline__ void copy_boxes(const Arguments& args, int batch, int kv_head, int stage, uint32 dst,
                                           uint32 full) {
  const int span = kv_head >> args.span_log2;
  const uint32 box_bytes = kHalfStage / args.boxes;
  int row = stage * args.boxes * kStageTokens;
#pragma unroll 1
  for (uint32 at = 0; at < kHalfStage; at += box_bytes, row += kStageTokens) {
    const int y = plan::kRowsInParts ? row : 0;
    const int z = plan::kRowsInParts ? 0 : row;
    copy_box(dst + at, args.keys, y, z, span, batch, full);
    copy_box(dst + kHalfStage + at, args.values, y, z, span, batch, full);
  }
}

/// The copying warps.
__device__ __forceinline__ void copy_segments(const Arguments& args, const Walk& walk, Cursor cursor,
                                              Segment (&segments)[plan::kSegments], Rings rings) {
  const bool is_first = threadIdx.x == plan::kWarps * kWarpSize;
  StagePlace place;
  SegmentPlace told;
  bool has_begun = false;
#pragma unroll 1
  while (true) {
    const Segment segment = walk.next(cursor);
    if (is_first) {
      wait_barrier(rings.heard(told), told.parity ^ 1);  // the first time round at once
      segments[told.index] = segment;
      arrive(rings.told(told));
    }
    if (segment.batch < 0) break;
    const int kv_head = first_kv_head(args, segment);
    const plan::Cache cache = plan::Cache::rows(args, segment.batch, kv_head);
#pragma unroll 1
    for (int stage = segment.first; stage < segment.last; ++stage) {
      const int first = stage << args.stage_tokens_log2;
      const int tokens = max(0, min(segment.length - first, 1 << args.stage_tokens_log2));
      const uint32 full = rings.full(place);
      wait_barrier(rings.empty(place), place.parity ^ 1);  // the first time round at once
      if (args.boxes != 0 && tokens == 1 << args.stage_tokens_log2) {
        // Every warp arrives, so that none falls two rounds behind and takes one for the other.
        __syncwarp();
        if (!is_first) {
          if (lane_index() == 0) arrive(full, kWarpSize);
        } else {
          fence_async_proxy();  // what cp.async has written there came before
          arrive(full, kWarpSize - 1);
          expect_bytes(full, 2 * kHalfStage);
          copy_boxes(args, segment.batch, kv_head, stage, rings.stage(place), full);
        }
      } else {
        if (tokens > 0) copy_pieces(args, cache, first, tokens, rings.stage(place));
        arrive_after_copies(full);
      }
      place.advance();
      if (!has_begun) wait_barrier(rings.heard(told), told.parity);
      has_begun = true;
    }
    told.advance();
  }
  wait_copies<0>();
}

/// The warps that attend: the block's next segment, and the loads of its queries, after which it is heard.
__device__ __forceinline__ Segment hear_segment(const GqaDecodeArguments& args,
                                                const Segment (&segments)[plan::kSegments], Rings rings,
                                                SegmentPlace& place, Keys::RawQuery& raw) {
  wait_barrier(rings.told(place), place.parity);
  const Segment segment = segments[place.index];
  if (segment.batch < 0) return segment;
  const int kv_head = first_kv_head(args, segment) + (warp_index() & ((1 << args.span_log2) - 1));
  fetch_block_query(raw, args, segment.batch, kv_head, head_group_of(segment));
  __syncwarp();
  if (elect_one()) arrive(rings.heard(place));
  place.advance();
  return segment;
}

/// Rows of a stage that the warp has, of those up to the length; zero or less: none.
__device__ __forceinline__ int rows_of_warp(const GqaDecodeArguments& args, int length, int stage, int warp) {
  const int tokens = length - (stage << args.stage_tokens_log2) - (warp >> args.span_log2 << args.warp_step_log2);
  return min((tokens + (1 << args.row_step_log2) - 1) >> args.row_step_log2, kStageTokens);
}

/// Slots of two per block, then two for the results of the group that the block is the first of. Of two a sequence that others
/// have begun takes the even one, the one that others end the odd one: no block has two of either. Counters: one for the
/// sequence that begins in the block, then two for groups, in the same way.
__device__ __forceinline__ Partials partials_of(const GqaDecodeArguments& args, const Walk::Owners& owners) {
  constexpr int kMost = 16;  // in one merge
  constexpr int kGroup = 12;
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  const int own = 2 * block + (block == owners.first ? 1 : 0);
  uint32* const counter = args.counters + owners.first;
  const PartialGroup all = {owners.count, 2 * owners.first, 1, 2, counter};
  if (owners.count <= kMost) return {owners.count, own, all, 0, {1}};
  const int index = (block - owners.first) / kGroup;
  const int first = owners.first + index * kGroup;
  const int is_begun = index == 0 ? 1 : 0;
  const PartialGroup group = {min(kGroup, owners.count - index * kGroup), 2 * first, is_begun, 2,
                              args.counters + (1 + is_begun) * plan::kMostBlocks + first};
  const PartialGroup groups = {(owners.count + kGroup - 1) / kGroup, 2 * (blocks + owners.first), 1, 2 * kGroup,
                               counter};
  return {owners.count, own, group, 2 * (blocks + first) + is_begun, groups};
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
  if (threadIdx.x == 0 && args.boxes != 0) {
    prefetch_map(args.keys);
    prefetch_map(args.values);
  }
  rings.init_barriers();
  wait_for_previous_kernel();
  const Walk walk(args, state.walk);
  const Cursor cursor = walk.begin();
  __syncthreads();
  if (warp >= plan::kWarps) {
    give_registers<plan::kCopyRegisters>();
    copy_segments(args, walk, cursor, state.segments, rings);
    return;
  }

  take_registers<plan::kAttendRegisters>();
  const WarpResults results = results_in(shared + plan::kResultsAt);
  StagePlace place;
  SegmentPlace heard;
  Keys::RawQuery raw;
  const BlockScores plain(args, 0, {0, 0, 1}, 0);
  Segment next = hear_segment(args, state.segments, rings, heard, raw);
#pragma unroll 1
  while (next.batch >= 0) {
    const Segment segment = next;
    Softmax softmax(plan::Queries::first_reference());
    Values::Accumulator output;
    {
      Keys::Query query;
      Keys::load_query(query, raw, args.scale_log2);
#pragma unroll 1
      for (int stage = segment.first; stage < segment.last; ++stage) {
        wait_barrier(rings.full(place), place.parity);
        const int rows = rows_of_warp(args, segment.length, stage, warp);
        if (rows > 0)
          attend(query, rings.stage(place), 0, plan::Queries(rows), plan::Tokens(rows), softmax, output, plain);
        __syncwarp();  // every lane has read the stage
        if (elect_one()) arrive(rings.empty(place));
        place.advance();
      }
    }
    next = hear_segment(args, state.segments, rings, heard, raw);
    finish_softmax<Values>(softmax, output);
    Values::store(output, results.outputs + warp * plan::kHeadsPerBlock * kMergePitch, kMergePitch);
    store_stats(softmax, results.stats + warp * plan::kHeadsPerBlock);
    sync_warps();
    merge(args, partials_of(args, walk.owners_of(segment)),
          {segment.batch, first_kv_head(args, segment), 1 << args.span_log2, head_group_of(segment)}, results);
    sync_warps();  // the results are read
  }
}
