// Results of a block's warps in GQA decode: their place in shared memory, their merge within the block and across
// splits, and the final output.
//
// Shared memory: one word for last_block (two words for merge_partials), padded to 16 bytes; then floats
// [kRowWarps][kHeadsPerBlock][pitch]; then statistics [kRowWarps][kHeadsPerBlock][2]. partial_results.cuh describes how
// the results of several blocks are combined.
#pragma once

#include "attention/gqa_decode_block.cuh"
#include "attention/query_tokens.cuh"
#include "core/copies.cuh"
#include "core/math.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/partial_results.cuh"
#include "pipeline/split_kv.cuh"

namespace cubit {

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

/// Stores a warp's reference exponents and sums at dst[0 … kHeadsPerWarp - 1]; called after finish_softmax().
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

/// Combines the results of all row warps that have the query row: every span-th warp, from the warp of `row` on. The
/// span and kRowWarps are powers of two. The function calls itself with twice the kSpan until kSpan equals `span`. Each
/// instance knows the span at compile time, so all its loads are in flight together and have constant offsets.
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

/// Combines four channels of a query row over all row warps that have the row. `row` is below heads.rows() and counts
/// the query rows of all KV heads of the span. Row warp w has the results of KV head w % span.
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
/// All consumer warps call the function, after a barrier that follows the stores of every warp's results.
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
