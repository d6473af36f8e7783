// What the families of GQA decode share around their loops: masking, the warps' results in shared memory, their merge with
// one another and with those of other splits, and the final output.
//
// Shared memory after the loop: floats [kWarps][kHeadsPerBlock][pitch], stats [kWarps][kHeadsPerBlock][2] and one word for
// last_block. Splits: see split_kv.cuh.
//
// Roles that the plan chooses, each a header with a fixed interface:
//   plan::Cache   cache addressing, see kv_contiguous.cuh
//   plan::Format  number format (kv_rows16.cuh, kv_int4_rows.cuh); all functions are called by whole warps:
//     kHeadTiles                    tiles of 8 heads
//     kRowBytes, kHeaderBytes, stage_byte(byte)   bytes of a row in the cache and of the header that it begins with, and
//                                   where one of them goes in a stage's row
//     Query, load_query(query, first head, heads, stride, scale)   the B operand of a block's heads, scaled as the format
//                                   needs
//     clear_padding(stage)          once per stage, before the first copy
//     scores(query, stage, scores)  [head tile][accumulator element], in base 2
//     ValueScales, load_value_scales(scales, stage)   what accumulate needs to know of a tile's values beforehand
//     exceeds(output, scales)       whether, for some lane, the output must be rescaled before those values are added
//     Accumulator, accumulate(output, softmax, stage, scales, weights), rescale(output, scales, factors)
//     store(output, dst, pitch)     unnormalised outputs as floats in shared memory
#pragma once

#include "plan.cuh"

#include "gqa_decode_arguments.h"
#include "gqa_decode_lanes.h"
#include "math.cuh"
#include "online_softmax.cuh"
#include "split_kv.cuh"
#include "types.cuh"

namespace cubit {

using Format = plan::Format;
using Softmax = OnlineSoftmax<Format::kHeadTiles>;

constexpr int kTileTokens = lanes::kTileRows;
constexpr int kChunkTokens = kTileTokens * plan::kWarps;
constexpr int kStageBytes = plan::kKvStageBytes;
constexpr int kMergePitch = lanes::merge_pitch(plan::kHeadDim);

/// Query heads of a block: fewer in the last head group of a KV head where they do not divide evenly.
__device__ __forceinline__ int heads_in(int head_group) {
  if constexpr (plan::kHeadsPerKv % plan::kHeadsPerBlock == 0) {
    return plan::kHeadsPerBlock;
  } else {
    return min(plan::kHeadsPerBlock, plan::kHeadsPerKv - head_group * plan::kHeadsPerBlock);
  }
}

/// The first of them, among all query heads.
__device__ __forceinline__ int first_head(int kv_head, int head_group) {
  return kv_head * plan::kHeadsPerKv + head_group * plan::kHeadsPerBlock;
}

/// Scores of tokens at or beyond the length become minus infinity.
__device__ __forceinline__ void mask_scores(float (&scores)[Format::kHeadTiles][4], int first, int length) {
  const int row = lane_index() / 4;
#pragma unroll
  for (int tile = 0; tile < Format::kHeadTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + row + i / 2 * 8 >= length) scores[tile][i] = negative_infinity();
    }
  }
}

/// Tokens of a sequence: what the device says, within the host's bound.
__device__ __forceinline__ int length_of(const GqaDecodeArguments& args, int batch) {
  if (args.lengths == nullptr) return args.max_length;
  return max(0, min(args.max_length, args.lengths[batch]));
}

__device__ __forceinline__ void load_block_query(Format::Query& query, const GqaDecodeArguments& args, int batch,
                                                 int kv_head, int head_group) {
  const char* heads = static_cast<const char*>(args.query) + batch * args.query_batch_stride +
                      first_head(kv_head, head_group) * args.query_head_stride;
  Format::load_query(query, heads, heads_in(head_group), args.query_head_stride, args.scale_log2);
}

/// One warp's work on a tile of its ring, which begins at token `first`.
__device__ __forceinline__ void attend(const Format::Query& query, uint32 stage, int first, int length,
                                       Softmax& softmax, Format::Accumulator& output) {
  float scores[Format::kHeadTiles][4];
  Format::scores(query, stage, scores);
  if (first + kTileTokens > length) mask_scores(scores, first, length);
  Format::ValueScales scales;
  Format::load_value_scales(scales, stage);
  softmax.weigh(scores, Format::exceeds(output, scales),
                [&](const Softmax::Factors& factors) { Format::rescale(output, scales, factors); });
  Format::accumulate(output, softmax, stage, scales, scores);
}

/// Where the warps of a block leave their unnormalised results.
struct WarpResults {
  float* outputs;  // [kWarps][kHeadsPerBlock][kMergePitch]
  float2* stats;   // [kWarps][kHeadsPerBlock] reference exponent and sum of weights
};

__device__ __forceinline__ WarpResults results_in(unsigned char* shared) {
  float* const outputs = reinterpret_cast<float*>(shared);
  return {outputs, reinterpret_cast<float2*>(outputs + plan::kWarps * plan::kHeadsPerBlock * kMergePitch)};
}

/// A warp's references and sums, [kHeadsPerBlock].
__device__ __forceinline__ void store_stats(const Softmax& softmax, float2* dst) {
  const int lane = lane_index();
  if (lane >= 4) return;  // every lane of a column has its totals
#pragma unroll
  for (int tile = 0; tile < Format::kHeadTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = lanes::accumulator_head(lane, tile, i);
      if (head >= plan::kHeadsPerBlock) continue;
      dst[head] = make_float2(softmax.reference(tile, i), softmax.sum(tile, i));  // access: stores of warps' sums
    }
  }
}

__device__ __forceinline__ void store_results(const Format::Accumulator& output, const Softmax& softmax,
                                              const WarpResults& dst, int warp) {
  Format::store(output, dst.outputs + warp * plan::kHeadsPerBlock * kMergePitch, kMergePitch);
  store_stats(softmax, dst.stats + warp * plan::kHeadsPerBlock);
}

/// Divides by the sum, rounds, and stores four channels; the thread of channel 0 also stores the log-sum-exp. A
/// sequence without tokens has sum 0: its output is zero and its log-sum-exp minus infinity. Any other sum is above 1:
/// its largest weight is.
__device__ __forceinline__ void finish(const GqaDecodeArguments& args, int batch, int head, int channel,
                                       const Combined& result) {
  const float inverse = reciprocal_fast(maximum(result.sum, 1e-30f));
  char* row = static_cast<char*>(args.output) + batch * args.output_batch_stride + head * args.output_head_stride;
  using Output = Pair<plan::Output>;
  store_global<plan::kAlignment>(row + 2 * channel, Output::pack(result.output.x * inverse, result.output.y * inverse),
                                 Output::pack(result.output.z * inverse, result.output.w * inverse));
  if (channel == 0 && args.lse != nullptr) {
    const int heads = args.kv_heads * plan::kHeadsPerKv;
    args.lse[static_cast<int64>(batch) * heads + head] = (result.reference + log2_fast(result.sum)) * kLn2;
  }
}

__device__ __forceinline__ Parts parts_of(const WarpResults& results) {
  return {reinterpret_cast<const char*>(results.outputs),
          reinterpret_cast<const char*>(results.stats),
          plan::kWarps,
          4 * plan::kHeadsPerBlock * kMergePitch,
          4 * kMergePitch,
          8 * plan::kHeadsPerBlock};
}

/// Merges the warps' results, then, in the block that is last, the splits': four channels of one head per thread and step.
__device__ __forceinline__ void merge(const GqaDecodeArguments& args, const Share& share, int batch, int kv_head,
                                      int head_group, int split, const WarpResults& results) {
  constexpr int kQuads = plan::kHeadDim / 4;
  constexpr int kItems = plan::kHeadsPerBlock * kQuads;
  const int sequence = (batch * args.kv_heads + kv_head) * plan::kHeadGroups + head_group;
  const int64 first_split = static_cast<int64>(sequence) * args.splits;
  float4* partial = reinterpret_cast<float4*>(args.partial) + first_split * kItems;
  float2* partial_stats = reinterpret_cast<float2*>(args.partial_stats) + first_split * plan::kHeadsPerBlock;
  Parts parts = parts_of(results);
  uint32* arrived = reinterpret_cast<uint32*>(results.stats + plan::kWarps * plan::kHeadsPerBlock);
  bool is_result = share.active == 1;
  while (true) {
#pragma unroll 1
    for (uint32 item = threadIdx.x; item < heads_in(head_group) * kQuads; item += plan::kWarps * kWarpSize) {
      const int head = static_cast<int>(item / kQuads);
      const int quad = static_cast<int>(item % kQuads);
      const Combined combined = combine(parts, head, quad);
      if (is_result) {
        finish(args, batch, first_head(kv_head, head_group) + head, 4 * quad, combined);
        continue;
      }
      partial[split * kItems + item] = combined.output;
      if (quad == 0) partial_stats[split * plan::kHeadsPerBlock + head] = make_float2(combined.reference, combined.sum);
    }
    if (is_result || !last_block(args.counters + sequence, share.active, arrived)) return;
    parts = {reinterpret_cast<const char*>(partial),
             reinterpret_cast<const char*>(partial_stats),
             share.active,
             16 * kItems,
             16 * kQuads,
             8 * plan::kHeadsPerBlock};
    is_result = true;
  }
}

}  // namespace cubit
