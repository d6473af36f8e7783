// Warp-specialised GQA decode attention for sm_90 and later: the last tokens of every sequence, usually one, attend to
// the sequence's KV cache. Copies are TMA box copies that complete on mbarriers, the schedule is balanced over blocks,
// and the products use ldmatrix with mma.sync, or wgmma.
//
// This file has the main loop of the consumer warps; producer_warps.cuh has the producer. The formula, the tile of one
// warp and the roles are those of sm80_gqa_decode.cuh and gqa_decode_block.cuh. The differences are:
//
// - Warps and heads. A block processes a span of neighbouring KV heads; warp w has KV head w % span. A stage holds as
//   many K/V rows for each warp as the warp's tiles have. If a warp's registers cannot hold all query rows of a KV
//   head, several warps process the same K/V rows, each with some of the query rows, so that the cache is read once. In
//   the following, "warps" are warps with different K/V rows. With many query rows (plan::kHeadsAreM, sm_90a only),
//   consumer warps form warpgroups, which process all query rows by warpgroup MMA with heads as M.
// - Producer warps. kProducerWarps additional warps only copy. If the rows of a span are contiguous in the cache, one
//   thread issues TMA box copies. A box has the rows of all warps if the tokens are contiguous too; warps that share a
//   KV head then take interleaved tokens. Otherwise a box has the rows of one span: each warp takes kStageTokens
//   consecutive tokens, and the next warp with the same KV head takes the tokens behind them. With a paged cache, a box
//   has rows of one page, and all producer warps issue some of the copies. See tma_producer.cuh. Where TMA does not
//   apply, and for the last tokens of a sequence, the producer warps copy vectors: 16 bytes per lane and copy, or fewer
//   for unaligned rows. See vector_copy_producer.cuh.
// - Schedule. A block takes a balanced share of all stages (balanced_schedule.cuh), as one work item after another; a
//   work item is the block's stages of one sequence. Copies run ahead across work items: while the results of one item
//   are merged, stages of the next item arrive. Two blocks that have a sequence to themselves may form a 2-CTA cluster,
//   which merges the sequence without the workspace (cluster_merge.cuh).
//
// Stage layout, aligned rows:
//
//   row r of a stage:  | row r of warp 0 | row r of warp 1 | … |
//
// Rows have the swizzle of tensor maps: 16-byte chunks are permuted within parts of 128 bytes, by the number of the
// 128-byte line (within 64 or 32 bytes if the row size requires that). If a row has an odd number of parts, a warp's
// rows fall into different banks. Rows with an even number of parts are cut: the stage holds the first parts of all
// rows, then the second parts, and so on.
//
// Stage layout, unaligned rows: rows whose size is no multiple of 16 bytes (int4_rows with one or two groups,
// alignment=4 or 8) are not swizzled. The rows of plan::kInterleavedWarps warps are interleaved: for each row index,
// the stage has the rows of these warps next to each other. The number of interleaved warps is the smallest that makes
// the total a multiple of 16 bytes. The rows of the next set of warps follow. An interleaved row is an odd number of
// 16-byte vectors, so a warp's rows fall into different banks. A span has at most as many KV heads as there are
// interleaved warps; if it has fewer, the warps take interleaved tokens. The rows of a stage are therefore in the order
// of the cache, and a box has the rows of one set of interleaved warps. Vector copies move plan::kVectorBytes bytes, or
// 16 bytes if TMA applies except at the end of the sequence.
//
// Shared memory:
//   stage 0 { rows of keys, rows of values }, stage 1 …
//   kResultsAt    results of the warps, see warp_results.cuh
//   kBarriersAt   for each stage the mbarriers `full` and `empty`; for each entry of the work queue the same two
//   kScratchAt    BlockState
//
// Who waits for whom:
// - Stages. The producer warps wait at a stage's `empty` barrier until the consumer warps have arrived there. The
//   consumer warps wait at the stage's `full` barrier until the copies have arrived.
// - First stage. The box copies of a block's very first stage start before the block-wide barrier, which shortens the
//   whole launch. Boxes of pages are an exception, because all producer warps issue them.
// - Work queue. The producer publishes each work item before it copies the item's first stage, or in the case of the
//   very first item while that stage is being copied. Each consumer warp acknowledges the item when its query loads are
//   issued. After the block's very first stage, the producer waits for these acknowledgements, because loads issued
//   behind many bulk copies complete behind them.
// - Results. At the end of a work item the consumer warps synchronise when all results are stored, before the next
//   results are stored, and during a merge with the results of other blocks (merge_slices.cuh).
// - Cluster. When a block of a 2-CTA cluster has read its last stage, the thread that copied the stage reports this to
//   the other block, which then sends its sums to the freed stages.
//
// Separate scale tensors are not part of the boxes. Each consumer warp loads the scales of its rows into registers: the
// scales of the first stage together with the item's queries, and the scales of each further stage while the previous
// stage is in use (ScaleLoads).
//
// Copy pacing limits box copies to the memory's pace if the math leaves no time to catch up (copy_pacing.cuh). Vector
// copies take longer than the pacing interval, so they are not paced. If the plan says so, the L2 evicts lines first
// that box copies have read. If all blocks would read the same region of the memory at the same time, they begin in the
// middle of their work items and visit the beginning last (StageIterator). Producer warps need fewer registers than
// consumer warps; if the plan says so, they release some.
//
// For plain scores of a single query token, the kernel counts the K/V rows of a warp and needs no positions. In all
// other cases positions are token positions, see InterleavedRows. Stages in which a window leaves no visible token
// belong to no block's share; stages in which a window leaves some tokens are copied by vectors. Rows at or beyond the
// sequence's length are not read; they arrive as zeros.
//
// If the launch overlaps with the preceding kernel of the stream, the kernel waits for its predecessor before reading
// anything.
//
// PTX ISA: "cp.async.bulk.tensor", "cp.async", "mbarrier", "bar", "barrier.cluster", "mapa", "st.async", and the
// sections named in sm80_gqa_decode.cuh.
#include "plan.cuh"

#include "attention/gqa_decode_block.cuh"
#include "attention/warp_results.cuh"
#include "core/bulk_copies.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "kv_format/kv_contiguous.cuh"
#include "kv_format/kv_paged.cuh"
#include "pipeline/cluster_merge.cuh"
#include "pipeline/deferred_merge.cuh"
#include "pipeline/producer_stage.cuh"
#include "pipeline/producer_warps.cuh"
#include "pipeline/scale_loads.cuh"
#include "pipeline/tma_producer.cuh"
#include "pipeline/two_cta_cluster.cuh"
#include "pipeline/work_queue.cuh"

namespace cubit {

constexpr int kAllWarps = plan::kWarps + plan::kProducerWarps;

/// True if the scores of a row do not depend on its position. The kernel then counts a warp's rows instead of token
/// positions.
constexpr bool kCountsRows = plan::Queries::kTokens == 1 && plan::Score::kIsPlain && !plan::Tokens::kIsWindow;

/// Partial results that a thread of a merge has in flight, while scales of groups for the next work item occupy
/// registers.
constexpr int kLoadedPartials = sizeof(StageScales) > 32 ? kPartsOfStep / 2 : kPartsOfStep;

/// Receives the block's next work item: waits for the queue entry, issues the loads of its queries and first scales,
/// and acknowledges the entry. The consumer warps call the function.
__device__ __forceinline__ QueueEntry receive_work_item(const GqaDecodeArguments& args,
                                                        const QueueEntry (&queue)[plan::kSegments], Rings rings,
                                                        QueuePlace& place, Keys::RawQuery& raw, NextScales& scales) {
  wait_barrier(rings.queue_full(place), place.parity());
  const QueueEntry entry = queue[place.index()];
  const WorkItem& item = entry.item;
  if (item.batch < 0) return entry;
  fetch_queries(raw, args, item.batch, query_rows_of(args, entry));
  ScaleLoads<Scales::kAny>(args, entry).begin(scales);
  __syncwarp();
  if (elect_one()) arrive(rings.queue_empty(place));
  place.advance();
  return entry;
}

/// Number of rows that the warp has in a stage, where `tokens_left` tokens of the sequence remain from the stage's
/// first token on; zero or negative if there are none.
__device__ __forceinline__ int rows_of_warp(const GqaDecodeArguments& args, int tokens_left, int warp) {
  const int tokens = tokens_left - token_of(args, 0, warp);
  return min((tokens + (1 << args.row_step_log2) - 1) >> args.row_step_log2, kStageTokens);
}

/// Masks and score modification for the query rows of a warp in one work item. Not used if rows are counted.
struct RowMasks {
  plan::Queries queries;
  plan::Tokens tokens;
  BlockScores steps;

  static __device__ __forceinline__ RowMasks of(const GqaDecodeArguments& args, const QueueEntry& entry) {
    const int length = entry.item.length;
    const plan::Tokens tokens(args, length, plan::Queries::query_position(length, 0));
    const QueryRows query_rows = query_rows_of(args, entry);
    return {plan::Queries::of_block(args, entry.item.batch, length, query_rows.first), tokens,
            BlockScores(args, entry.item.batch, query_rows, length)};
  }
};

/// Makes vector copies visible to wgmma. With heads as M, tensor cores read a stage through the async proxy, so
/// cp.async writes must be ordered before these reads.
__device__ __forceinline__ void fence_vector_copies(const GqaDecodeArguments& args, const WorkItem& item, int stage) {
  if constexpr (!plan::kHeadsAreM) return;
  if (!is_copied_by_tma(args, tokens_in(args, item, stage))) fence_async_proxy();
}

/// Processes the warp's rows of a stage, if there are any. The function is a template so that only one of its two
/// branches is compiled.
template <class Queries = plan::Queries, class Tokens = plan::Tokens>
__device__ __forceinline__ void attend_stage(const GqaDecodeArguments& args, const Keys::Query& query, uint32 rows_at,
                                             const WorkItem& item, const StageIterator& iterator, const RowMasks& masks,
                                             Softmax& softmax, Values::Accumulator& output, const StageScales& scales) {
  const int warp = row_warp_index();
  if constexpr (kCountsRows) {
    const int rows = rows_of_warp(args, iterator.tokens_left(), warp);
    if (rows > 0) {
      fence_vector_copies(args, item, iterator.stage());
      attend(query, rows_at, ConsecutiveRows{0}, Queries(rows), Tokens(rows), softmax, output, masks.steps, scales);
    }
  } else {
    const int stage = iterator.stage();
    const InterleavedRows rows{(stage << args.stage_tokens_log2) + token_of(args, 0, warp), args.row_step_log2};
    if (rows.first < item.length) {
      fence_vector_copies(args, item, stage);
      attend(query, rows_at, rows, masks.queries, masks.tokens, softmax, output, masks.steps, scales);
    }
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
  if (is_first_producer_thread()) rings.init_barriers();
  wait_for_previous_kernel();
  if (warp >= plan::kWarps) return run_producer(args, state, rings);

  if (threadIdx.x == 0) DeferredMerge<kLoadedPartials>::begin(state.stored);
  __syncthreads();
  if (merges_in_cluster(state)) arrive_in_cluster();
  take_registers<plan::kConsumerRegisters>();
  const WarpResults results = results_in(shared + plan::kResultsAt);
  const int first_result = row_warp_index() * plan::kHeadsPerBlock + first_query_row_of_warp();
  StagePlace place;
  QueuePlace queue_place;
  Keys::RawQuery raw;
  NextScales next_scales;
  const float query_factor = args.scale_log2 * Keys::key_factor(args);
  QueueEntry next = receive_work_item(args, state.queue, rings, queue_place, raw, next_scales);
  DeferredMerge<kLoadedPartials> merges(args, state.stored, results);
#pragma unroll 1
  while (next.item.batch >= 0) {
    const WorkItem item = next.item;
    const Owners owners = next.owners;
    const int kv_head = next.kv_head;
    const RowMasks masks = RowMasks::of(args, next);
    Softmax softmax(first_reference());
    Values::Accumulator output;
    {
      Keys::Query query;
      Keys::load_query(query, raw, query_factor);
      const ScaleLoads<Scales::kAny> loads(args, next);
#pragma unroll 1
      for (StageIterator iterator(args, item); !iterator.is_over();) {
        const StageScales scales = next_scales.stage;
        const StageIterator here = iterator;
        iterator.advance();
        if (!iterator.is_over()) loads.fetch(next_scales, iterator);
        wait_barrier(rings.full(place), place.parity);
        attend_stage(args, query, rings.stage(place), item, here, masks, softmax, output, scales);
        __syncwarp();  // all lanes have read the stage
        if (elect_one()) arrive(rings.empty(place));
        place.advance();
      }
    }
    next = receive_work_item(args, state.queue, rings, queue_place, raw, next_scales);
    finish_softmax<Values>(softmax, output);
    Values::scale_outputs(output, args);
    Values::store(output, results.outputs + first_result * kMergePitch, kMergePitch);
    store_stats(softmax, results.stats + first_result);
    sync_warps();
    const StoredResult own = {owners, {item.batch, kv_head, 1 << args.span_log2, head_group_of(item)}};
    if (merges_in_cluster(state)) {
      wait_for_cluster();  // every thread that has arrived must wait
      return merge_in_cluster(args, own.heads, results, rings.base, rings.of_cluster());
    }
    merges.store(own, next.item.batch < 0);
  }
}
