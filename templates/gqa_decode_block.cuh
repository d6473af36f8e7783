// What the families of GQA decode share around their loops: masking, the warps' results in shared memory, their merge with
// one another and with those of other splits, and the final output.
//
// The warps' results in shared memory: floats [kWarps][kHeadsPerBlock][pitch], stats [kWarps][kHeadsPerBlock][2] and one
// word for last_block. Splits: see split_kv.cuh.
//
// Roles that the plan chooses, each a header with a fixed interface:
//   plan::Cache   cache addressing, see kv_contiguous.cuh
//   plan::Format  number format (kv_rows16.cuh, kv_int4_rows.cuh); all functions are called by whole warps:
//     kHeadTiles                    tiles of 8 heads
//     kRowBytes, kHeaderBytes, stage_byte(byte)   bytes of a row in the cache and of the header that it begins with, and
//                                   where one of them goes in a stage's row
//     RawQuery, fetch_query(raw, first head, heads, stride)   loads of a block's heads
//     Query, load_query(query, raw, scale)   the B operand made of them, scaled as the format needs
//     clear_padding(stage)          once per stage, before the first copy
//     scores(query, stage, scores)  [head tile][accumulator element], in base 2
//     ValueScales, load_value_scales(scales, stage)   what accumulate needs to know of a tile's values beforehand, and
//                                   its `peak`: the largest factor of a weight, where kWeightsAreScaled
//     Accumulator, accumulate(output, softmax, stage, scales, weights), rescale(output, factors)
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
constexpr int kTileBytes = kTileTokens * plan::kKvStagePitch;  // 16 rows of keys or of values
constexpr int kStageTokens = kTileTokens * plan::kTilesPerStage;
constexpr int kChunkTokens = kStageTokens * plan::kWarps;
constexpr int kStageBytes = plan::kStageBytes;
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

__device__ __forceinline__ void fetch_block_query(Format::RawQuery& raw, const GqaDecodeArguments& args, int batch,
                                                  int kv_head, int head_group) {
  const char* heads = static_cast<const char*>(args.query) + batch * args.query_batch_stride +
                      first_head(kv_head, head_group) * args.query_head_stride;
  Format::fetch_query(raw, heads, heads_in(head_group), args.query_head_stride);
}

/// One warp's work on a stage of its ring, which begins at token `first`: the keys of its tiles, then their values.
__device__ __forceinline__ void attend(const Format::Query& query, uint32 stage, int first, int length,
                                       Softmax& softmax, Format::Accumulator& output) {
  constexpr int kSteps = plan::kTilesPerStage;
  // A tile's values are 16 rows behind what the format takes for the beginning of a stage.
  const uint32 values = stage + (kSteps - 1) * kTileBytes;
  float scores[kSteps][Format::kHeadTiles][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) Format::scores(query, stage + step * kTileBytes, scores[step]);
  if (first + kStageTokens > length) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) mask_scores(scores[step], first + step * kTileTokens, length);
  }
  // Only one tile's scales are kept in registers; the others are loaded again when they are used.
  Format::ValueScales scales;
  float peak = 0.f;
#pragma unroll
  for (int step = kSteps - 1; step >= 0; --step) {
    Format::load_value_scales(scales, values + step * kTileBytes);
    peak = maximum(peak, scales.peak);
  }
  softmax.weigh<Format::kWeightsAreScaled>(scores, peak,
                                           [&](const Softmax::Factors& factors) { Format::rescale(output, factors); });
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step > 0) Format::load_value_scales(scales, values + step * kTileBytes);
    Format::accumulate(output, softmax, values + step * kTileBytes, scales, scores[step]);
  }
}

/// Where the warps of a block leave their unnormalised results.
struct WarpResults {
  float* outputs;  // [kWarps][kHeadsPerBlock][kMergePitch]
  float2* stats;   // [kWarps][kHeadsPerBlock] reference exponent and sum of weights

  __device__ __forceinline__ uint32* arrived() const {
    return reinterpret_cast<uint32*>(stats + plan::kWarps * plan::kHeadsPerBlock);
  }
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

/// Where a sequence's partial results are in the workspace, and the block's own among them.
struct Partials {
  int parts;  // blocks of the sequence; 1: no workspace is used
  int own;    // slot
  // Slots of the parts: base + first, base + stride, base + 2 · stride …
  int base;
  int first;
  int stride;
  uint32* counter;
};

/// Merges the warps' results, then, in the block that is last, the parts': four channels of one head per thread and step.
/// `warps`: as combine takes them, or none of them. `arrived`: a word of shared memory.
template <class Warps>
__device__ __forceinline__ void merge(const GqaDecodeArguments& args, const Partials& partials, int batch, int kv_head,
                                      int head_group, const Warps& warps, uint32* arrived) {
  constexpr int kQuads = plan::kHeadDim / 4;
  constexpr int kItems = plan::kHeadsPerBlock * kQuads;
  constexpr uint32 kSlotBytes = 16 * kItems;
  constexpr uint32 kSlotStats = 8 * plan::kHeadsPerBlock;
  constexpr int kWarpsAtOnce = plan::kWarps <= 4 ? 4 : 8;
  const bool is_whole = partials.parts == 1;
  const uint32 items = heads_in(head_group) * kQuads;
  const auto finish_item = [&](const Combined& combined, int head, int quad) {
    finish(args, batch, first_head(kv_head, head_group) + head, 4 * quad, combined);
  };
#pragma unroll 1
  for (uint32 item = threadIdx.x; item < items; item += plan::kWarps * kWarpSize) {
    const int head = static_cast<int>(item / kQuads);
    const int quad = static_cast<int>(item % kQuads);
    Combined combined{make_float4(0.f, 0.f, 0.f, 0.f), negative_infinity(), 0.f};
    if (warps.count > 0) combined = combine<kWarpsAtOnce>(warps, head, quad);
    if (is_whole) {
      finish_item(combined, head, quad);
      continue;
    }
    float4* const outputs = reinterpret_cast<float4*>(args.partial) + static_cast<int64>(partials.own) * kItems;
    outputs[item] = combined.output;
    if (quad > 0) continue;
    float2* const stats =
        reinterpret_cast<float2*>(args.partial_stats) + static_cast<int64>(partials.own) * plan::kHeadsPerBlock;
    stats[head] = make_float2(combined.reference, combined.sum);
  }
  if (is_whole || !last_block(partials.counter, partials.parts, arrived)) return;
  const Parts parts = {
      reinterpret_cast<const char*>(args.partial) + static_cast<int64>(partials.base) * kSlotBytes,
      reinterpret_cast<const char*>(args.partial_stats) + static_cast<int64>(partials.base) * kSlotStats,
      partials.parts,
      partials.stride * kSlotBytes,
      16 * kQuads,
      partials.stride * kSlotStats,
      partials.first * kSlotBytes,
      partials.first * kSlotStats};
#pragma unroll 1
  for (uint32 item = threadIdx.x; item < items; item += plan::kWarps * kWarpSize) {
    const int head = static_cast<int>(item / kQuads);
    const int quad = static_cast<int>(item % kQuads);
    finish_item(combine<8>(parts, head, quad), head, quad);
  }
}

}  // namespace cubit
