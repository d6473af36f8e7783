// Decode attention for grouped queries: one new token per sequence against its KV cache.
// Family sm80: cp.async, ldmatrix, mma.sync; sm_80 and later.
//
//   output[b, h] = sum over t < lengths[b] of weight_t · value[b, t, h / heads_per_kv],
//   weight = softmax over t of (scale · query[b, h] · key[b, t, h / heads_per_kv])
//
// One block per (sequence, KV head, split). Its kWarps warps walk the split in chunks of 16 · kWarps tokens; each warp
// owns 16 tokens of a chunk from the copy to the accumulator, so the loop has no barrier of the block.
//
// Work of one warp on one tile of 16 tokens:
//
//               8 heads        S  = K · Qᵀ      tokens are the M of the MMA, heads its N: for 8 heads per KV head no
//             +---------+                       row or column is wasted
//   16 tokens |  S, P   |      P  = 2^(S - reference), transposed in registers (movmatrix)
//             +---------+
//               8 heads
//             +---------+
//    head_dim |   Oᵀ    |      Oᵀ += Vᵀ · Pᵀ    accumulators in registers
//             +---------+
//
// Shared memory: warp 0 { stage 0 { 16 K rows, 16 V rows }, stage 1 … }, warp 1 …; after the loop the same bytes hold
// floats [kWarps][kHeadsPerKv][pitch], stats [kWarps][kHeadsPerKv][2] and one word for last_block.
//
// Who waits for whom: a lane's copies are complete after wait_copies, other lanes' after the __syncwarp that follows;
// the same __syncwarp shows that every lane has finished reading the stage that is filled next. Before the merge: one
// __syncthreads, because warps write where others' stages were. Splits: see split_kv.cuh.
//
// Rows at or beyond the length are not read: they arrive as zeros, and their scores are masked before the maximum.
//
// Roles that the plan chooses, each a header with a fixed interface:
//   plan::Cache   cache addressing, see kv_contiguous.cuh
//   plan::Format  number format (kv_rows16.cuh, kv_int4_rows.cuh); all functions are called by whole warps:
//     kHeadTiles                    tiles of 8 heads
//     kRowBytes, kHeaderBytes, stage_byte(byte)   bytes of a row in the cache and of the header that it begins with, and
//                                   where one of them goes in a stage's row
//     Query, load_query(query, first head, stride, scale)   the B operand of a group of heads, scaled as the format needs
//     clear_padding(stage)          once per stage, before the first copy
//     scores(query, stage, scores)  [head tile][accumulator element], in base 2
//     ValueScales, load_value_scales(scales, stage)   what accumulate needs to know of a tile's values beforehand
//     exceeds(output, scales)       whether, for some lane, the output must be rescaled before those values are added
//     Accumulator, accumulate(output, softmax, stage, scales, weights), rescale(output, scales, factors)
//     store(output, dst, pitch)     unnormalised outputs as floats in shared memory
// Which lane touches which byte: gqa_decode_lanes.h, shared with the plan's proofs.
//
// PTX ISA: "Asynchronous copy: cp.async", "ldmatrix", "movmatrix", "Matrix fragments for mma.m16n8k16 with floating
// point type", "atom", "Memory Consistency Model".
#include "plan.cuh"

#include "copies.cuh"
#include "gqa_decode_arguments.h"
#include "gqa_decode_lanes.h"
#include "kv_contiguous.cuh"
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

/// Copies tiles of 16 tokens, keys then values, in kPieces copies of kCopyBytes per lane: see lanes::copied_piece.
class Fetcher {
 public:
  __device__ __forceinline__ Fetcher(const plan::Cache& cache, int length) : cache_(cache), length_(length) {
    if constexpr (plan::kKeepOffsets) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) offsets_[i] = offset(place_of(i, lane_index()), strides());
    }
    if constexpr (kKeepSlots) {
#pragma unroll
      for (int i = 0; i < plan::kSlotPeriod; ++i) slots_[i] = settled(static_cast<uint32>(slot_of(i, lane_index())));
    }
  }

  /// Starts the copies of tokens first … first + 15; rows at or beyond the length become zeros.
  __device__ __forceinline__ void fetch(uint32 stage, int first) const {
    const char* keys = cache_.keys(first).first;
    const char* values = cache_.values(first).first;
    if (first + kTileTokens <= length_) {
      int lane = lane_index();
      if constexpr (!plan::kKeepOffsets) lane = recomputed(lane);
#pragma unroll(kUnrolledPieces)
      for (int i = 0; i < kPieces; ++i) {
        const lanes::Place place = place_of(i, lane);
        const char* src = is_value(i, place) ? values : keys;
        src += plan::kKeepOffsets ? offsets_[i] : offset(place, strides());
        // A kept slot, and a distance that is a constant.
        const int kept = i % plan::kSlotPeriod;
        const uint32 slot = kKeepSlots ? slots_[kept] + (slot_of(i, 0) - slot_of(kept, 0)) : slot_of(i, lane);
        copy_async<plan::kCopyBytes>(stage + slot, src);  // access: cp.async of rows
      }
      return;
    }
#pragma unroll 1
    for (int i = 0; i < kPieces; ++i) {
      const lanes::Place place = place_of(i, lane_index());
      const char* src = (place.row >= kTileTokens ? values : keys) + offset(place, strides());
      const bool valid = first + place.row % kTileTokens < length_;
      copy_async<plan::kCopyBytes>(stage + slot_of(i, lane_index()), src, valid);  // access: cp.async of rows
    }
  }

 private:
  static_assert(Format::kRowBytes % plan::kCopyBytes == 0);
  static constexpr int kPieces = Format::kRowBytes / plan::kCopyBytes;  // of a row, and per lane of a tile
  static constexpr int kUnrolledPieces =
      kPieces <= 24 ? kPieces : 8;  // narrow copies of wide rows would fill registers

  // More would fill registers; where rows are padded and not swizzled, the compiler finds the constants itself.
  static constexpr bool kKeepSlots = plan::kSlotPeriod <= 4;

  struct Strides {
    int key;
    int value;
  };
  __device__ __forceinline__ Strides strides() const { return {cache_.keys(0).stride, cache_.values(0).stride}; }

  static constexpr __device__ lanes::Place place_of(int i, int lane) {
    return lanes::copied_piece(i, lane, Format::kHeaderBytes, Format::kRowBytes, plan::kCopyBytes);
  }
  /// Where a piece goes in a stage.
  static constexpr __device__ int slot_of(int i, int lane) {
    return plan::kv_stage(place_of(i, lane).row, Format::stage_byte(place_of(i, lane).byte));
  }
  /// A constant, but for a copy that takes both keys and values.
  static constexpr __device__ bool is_value(int i, lanes::Place place) {
    if (place_of(i, 0).row >= kTileTokens) return true;
    return place_of(i, kWarpSize - 1).row >= kTileTokens && place.row >= kTileTokens;
  }

  /// From a tile's first row to a piece.
  static __device__ __forceinline__ int offset(lanes::Place place, Strides stride) {
    return place.row % kTileTokens * (place.row >= kTileTokens ? stride.value : stride.key) + place.byte;
  }

  plan::Cache cache_;
  int length_;
  int offsets_[plan::kKeepOffsets ? kPieces : 1];
  uint32 slots_[kKeepSlots ? plan::kSlotPeriod : 1];
};

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

/// One warp's part of chunks [share.first, share.last).
__device__ __forceinline__ void walk(const Share& share, int length, const plan::Cache& cache,
                                     const Format::Query& query, uint32 stages, Softmax& softmax,
                                     Format::Accumulator& output) {
  const Fetcher fetcher(cache, length);
  const int warp = warp_index();
  const auto token_of = [&](int chunk) { return chunk * kChunkTokens + warp * kTileTokens; };
#pragma unroll
  for (int stage = 0; stage < plan::kStages; ++stage) Format::clear_padding(stages + stage * kStageBytes);
  // One loop fills and drains the ring: tile `ahead` is fetched while tile `ahead - (kStages - 1)` is used.
  int fill = 0;
  int ahead = share.first;
  do {  // at least once, so that nothing needs a value from before the loop
    wait_copies<plan::kStages - 2>();
    __syncwarp();
    if (ahead < share.last) fetcher.fetch(stages + fill * kStageBytes, token_of(ahead));
    commit_copies();

    fill = fill + 1 == plan::kStages ? 0 : fill + 1;  // the stage that is filled next is the one in use now
    const int chunk = ahead - (plan::kStages - 1);
    const int first = token_of(chunk);
    if (chunk >= share.first && first < length) {  // the same for the whole warp; the last chunk may lack its tokens
      const uint32 stage = stages + fill * kStageBytes;
      float scores[Format::kHeadTiles][4];
      Format::scores(query, stage, scores);
      if (first + kTileTokens > length) mask_scores(scores, first, length);
      Format::ValueScales scales;
      Format::load_value_scales(scales, stage);
      softmax.weigh(scores, Format::exceeds(output, scales),
                    [&](const Softmax::Factors& factors) { Format::rescale(output, scales, factors); });
      Format::accumulate(output, softmax, stage, scales, scores);
    }
  } while (++ahead < share.last + plan::kStages - 1);
  wait_copies<0>();
}

/// A warp's references and sums, [heads_per_kv].
__device__ __forceinline__ void store_stats(const Softmax& softmax, float2* dst) {
  const int lane = lane_index();
  if (lane >= 4) return;  // every lane of a column has its totals
#pragma unroll
  for (int tile = 0; tile < Format::kHeadTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = lanes::accumulator_head(lane, tile, i);
      if (head >= plan::kHeadsPerKv) continue;
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

/// Merges the warps' results, then, in the block that is last, the splits': four channels of one head per thread and step.
__device__ __forceinline__ void merge(const GqaDecodeArguments& args, const Share& share, int batch, int kv_head,
                                      int split, const float* warp_outputs, float2* warp_stats) {
  constexpr int kQuads = plan::kHeadDim / 4;
  constexpr int kItems = plan::kHeadsPerKv * kQuads;
  const int sequence = batch * args.kv_heads + kv_head;
  const int64 first_split = static_cast<int64>(sequence) * args.splits;
  float4* partial = reinterpret_cast<float4*>(args.partial) + first_split * kItems;
  float2* partial_stats = reinterpret_cast<float2*>(args.partial_stats) + first_split * plan::kHeadsPerKv;
  Parts parts{reinterpret_cast<const char*>(warp_outputs),
              reinterpret_cast<const char*>(warp_stats),
              plan::kWarps,
              4 * plan::kHeadsPerKv * kMergePitch,
              4 * kMergePitch,
              8 * plan::kHeadsPerKv};
  uint32* arrived = reinterpret_cast<uint32*>(warp_stats + plan::kWarps * plan::kHeadsPerKv);
  bool is_result = share.active == 1;
  while (true) {
#pragma unroll 1
    for (uint32 item = threadIdx.x; item < kItems; item += plan::kWarps * kWarpSize) {
      const int head = static_cast<int>(item / kQuads);
      const int quad = static_cast<int>(item % kQuads);
      const Combined combined = combine(parts, head, quad);
      if (is_result) {
        finish(args, batch, kv_head * plan::kHeadsPerKv + head, 4 * quad, combined);
        continue;
      }
      partial[split * kItems + item] = combined.output;
      if (quad == 0) partial_stats[split * plan::kHeadsPerKv + head] = make_float2(combined.reference, combined.sum);
    }
    if (is_result || !last_block(args.counters + sequence, share.active, arrived)) return;
    parts = {reinterpret_cast<const char*>(partial),
             reinterpret_cast<const char*>(partial_stats),
             share.active,
             16 * kItems,
             16 * kQuads,
             8 * plan::kHeadsPerKv};
    is_result = true;
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kWarps * 32, plan::kBlocksPerSm)
    gqa_decode(const __grid_constant__ cubit::GqaDecodeArguments args) {
  using namespace cubit;
  extern __shared__ __align__(128) unsigned char shared[];
  const int split = static_cast<int>(blockIdx.x % args.splits);
  const int sequence = static_cast<int>(blockIdx.x / args.splits);  // batch · kv_heads + kv_head
  const int kv_head = sequence % args.kv_heads;
  const int batch = sequence / args.kv_heads;
  const int warp = warp_index();

  int length = args.max_length;
  if (args.lengths != nullptr) length = max(0, min(length, args.lengths[batch]));
  const Share share = share_of((length + kChunkTokens - 1) / kChunkTokens, args.splits, split);

  if (split >= share.active) return;

  Softmax softmax;
  Format::Accumulator output;
  {
    Format::Query query;
    const char* heads = static_cast<const char*>(args.query) + batch * args.query_batch_stride +
                        kv_head * plan::kHeadsPerKv * args.query_head_stride;
    Format::load_query(query, heads, args.query_head_stride, args.scale_log2);
    const plan::Cache cache = plan::Cache::rows(args, batch, kv_head);
    walk(share, length, cache, query, settled(shared_address(shared) + warp * plan::kStages * kStageBytes), softmax,
         output);
  }
  softmax.finish();

  __syncthreads();
  float* merged = reinterpret_cast<float*>(shared);
  float2* stats = reinterpret_cast<float2*>(merged + plan::kWarps * plan::kHeadsPerKv * kMergePitch);
  Format::store(output, merged + warp * plan::kHeadsPerKv * kMergePitch, kMergePitch);
  store_stats(softmax, stats + warp * plan::kHeadsPerKv);
  __syncthreads();

  merge(args, share, batch, kv_head, split, merged, stats);
}
