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
//     kRowBytes, stage_byte(byte)   bytes of a row in the cache, and where one of them goes in a stage's row
//     Query, load_query(query, first head, stride, scale)   the B operand of a group of heads, scaled as the format needs
//     clear_padding(stage)          once per stage, before the first copy
//     scores(query, stage, scores)  [head tile][accumulator element], in base 2
//     Accumulator, accumulate(output, softmax, stage, weights), rescale(output, factors)
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

/// Copies tiles of 16 tokens, keys then values, row after row in pieces of kCopyBytes. Piece i · 32 + lane is this
/// lane's.
class Fetcher {
 public:
  __device__ __forceinline__ Fetcher(const plan::Cache& cache, int length) : cache_(cache), length_(length) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) offsets_[i] = plan::kKeepOffsets ? offset_of(i, i * kWarpSize + lane) : 0;
  }

  /// Starts the copies of tokens first … first + 15; rows at or beyond the length become zeros.
  __device__ __forceinline__ void fetch(uint32 stage, int first) const {
    const char* keys = cache_.keys(first).first;
    const char* values = cache_.values(first).first;
    int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    if constexpr (!plan::kKeepOffsets) lane = recomputed(lane);
    if (first + kTileTokens <= length_) {
#pragma unroll(kUnrolledPieces)
      for (int i = 0; i < kPieces; ++i) {
        const int index = i * kWarpSize + lane;
        const int offset = plan::kKeepOffsets ? offsets_[i] : offset_of(i, index);
        const char* src = (is_value(i, index) ? values : keys) + offset;
        copy_async<plan::kCopyBytes>(stage + slot_of(index), src);  // access: cp.async of rows
      }
      return;
    }
    const CacheRows key_rows = cache_.keys(first);
    const CacheRows value_rows = cache_.values(first);
#pragma unroll 1
    for (int index = lane; index < kPieces * kWarpSize; index += kWarpSize) {
      const int row = place_of(index).row % kTileTokens;
      const char* src = (index < kKeyPieces ? key_rows.row(row) : value_rows.row(row)) + place_of(index).byte;
      copy_async<plan::kCopyBytes>(stage + slot_of(index), src, first + row < length_);  // access: cp.async of rows
    }
  }

 private:
  static_assert(Format::kRowBytes % plan::kCopyBytes == 0);
  static constexpr int kPieces = Format::kRowBytes / plan::kCopyBytes;  // of a row, and per lane of a tile
  static constexpr int kKeyPieces = kTileTokens * kPieces;
  static constexpr int kUnrolledPieces =
      kPieces <= 24 ? kPieces : 8;  // narrow copies of wide rows would fill registers

  static constexpr __device__ lanes::Place place_of(int index) {
    return lanes::copied_piece(index, kPieces, plan::kCopyBytes);
  }
  static constexpr __device__ int general_slot_of(int index) {
    return plan::kv_stage(place_of(index).row, Format::stage_byte(place_of(index).byte));
  }
  static constexpr __device__ bool is_dense() {
    for (int index = 0; index < kPieces * kWarpSize; ++index) {
      if (general_slot_of(index) != index * plan::kCopyBytes) return false;
    }
    return true;
  }
  /// Where a piece goes in a stage. In a stage without gaps and swizzle that is a constant beside the lane.
  static constexpr __device__ int slot_of(int index) {
    constexpr bool kDense = is_dense();
    return kDense ? index * plan::kCopyBytes : general_slot_of(index);
  }
  /// Only the instruction in whose middle the keys end has both; for the others this is a constant.
  static __device__ __forceinline__ bool is_value(int i, int index) {
    if ((i + 1) * kWarpSize <= kKeyPieces) return false;
    return i * kWarpSize >= kKeyPieces || index >= kKeyPieces;
  }

  /// From a tile's first row to a piece.
  __device__ __forceinline__ int offset_of(int i, int index) const {
    const int stride = is_value(i, index) ? cache_.values(0).stride : cache_.keys(0).stride;
    return place_of(index).row % kTileTokens * stride + place_of(index).byte;
  }

  plan::Cache cache_;
  int length_;
  int offsets_[kPieces];
};

/// Scores of tokens at or beyond the length become minus infinity.
__device__ __forceinline__ void mask_scores(float (&scores)[Format::kHeadTiles][4], int first, int length) {
  const int row = static_cast<int>(threadIdx.x) % kWarpSize / 4;
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
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const auto token_of = [&](int chunk) { return chunk * kChunkTokens + warp * kTileTokens; };
#pragma unroll
  for (int stage = 0; stage < plan::kStages; ++stage) Format::clear_padding(stages + stage * kStageBytes);
  // One loop fills and drains the ring: tile `ahead` is fetched while tile `ahead - (kStages - 1)` is used.
  int fill = 0;
  int use = 1;  // kStages - 1 iterations later it has come round to 0
  for (int ahead = share.first; ahead < share.last + plan::kStages - 1; ++ahead) {
    wait_copies<plan::kStages - 2>();
    __syncwarp();
    if (ahead < share.last) fetcher.fetch(stages + fill * kStageBytes, token_of(ahead));
    commit_copies();

    const int chunk = ahead - (plan::kStages - 1);
    const int first = token_of(chunk);
    if (chunk >= share.first && first < length) {  // the same for the whole warp; the last chunk may lack its tokens
      const uint32 stage = stages + use * kStageBytes;
      float scores[Format::kHeadTiles][4];
      Format::scores(query, stage, scores);
      if (first + kTileTokens > length) mask_scores(scores, first, length);
      softmax.weigh(scores, [&](const Softmax::Factors& factors) { Format::rescale(output, factors); });
      Format::accumulate(output, softmax, stage, scores);
    }
    fill = fill + 1 == plan::kStages ? 0 : fill + 1;
    use = use + 1 == plan::kStages ? 0 : use + 1;
  }
  wait_copies<0>();
}

/// A warp's references and sums, [heads_per_kv].
__device__ __forceinline__ void store_stats(const Softmax& softmax, float2* dst) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
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
/// sequence without tokens has sum 0: its output is zero and its log-sum-exp minus infinity.
__device__ __forceinline__ void finish(const GqaDecodeArguments& args, int batch, int head, int channel,
                                       const Combined& result) {
  const float inverse = result.sum == 0.f ? 0.f : 1.f / result.sum;
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
  Parts parts{reinterpret_cast<const float4*>(warp_outputs), warp_stats,      plan::kWarps,
              plan::kHeadsPerKv * kMergePitch / 4,           kMergePitch / 4, plan::kHeadsPerKv};
  uint32* arrived = reinterpret_cast<uint32*>(warp_stats + plan::kWarps * plan::kHeadsPerKv);
  bool is_result = share.active == 1;
  while (true) {
#pragma unroll 1
    for (int item = threadIdx.x; item < kItems; item += plan::kWarps * kWarpSize) {
      const int head = item / kQuads;
      const int quad = item % kQuads;
      const Combined combined = combine(parts, head, quad);
      if (is_result) {
        finish(args, batch, kv_head * plan::kHeadsPerKv + head, 4 * quad, combined);
        continue;
      }
      partial[split * kItems + item] = combined.output;
      if (quad == 0) partial_stats[split * plan::kHeadsPerKv + head] = make_float2(combined.reference, combined.sum);
    }
    if (is_result || !last_block(args.counters + sequence, share.active, arrived)) return;
    parts = {partial, partial_stats, share.active, kItems, kQuads, plan::kHeadsPerKv};
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
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;

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
    walk(share, length, cache, query, shared_address(shared) + warp * plan::kStages * kStageBytes, softmax, output);
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
