// Decode attention for grouped queries: one new token per sequence against its KV cache.
// Family sm90: bulk copies with transaction barriers, clusters, ldmatrix, mma.sync; sm_90 and later.
//
// What is computed, the tile and the roles: as in sm80_gqa_decode.cuh and gqa_decode_block.cuh. What differs:
//
// - A tile of 16 tokens is two bulk copies that one lane starts, of the keys and of the values, where rows follow one
//   another in the cache and in a stage; otherwise each lane copies one row. No warp spends instructions on addresses.
// - Where a sequence is split, its blocks are a cluster and merge through each other's shared memory, if the launch says
//   so (args.clustered); otherwise through the workspace, as in split_kv.cuh.
//
// Shared memory: warp 0 { stage 0 { 16 K rows, 16 V rows }, stage 1 … }, warp 1 …; from kBarriersAt on one barrier per
// warp and stage. After the loop the bytes of the stages are the results of gqa_decode_block.cuh.
//
// Who waits for whom: a warp starts the copies of its own stages and waits for them at the stage's barrier: phase n of
// stage s is over when the warp's tile s + n · kStages has arrived. A stage is filled again after a __syncwarp, when every
// lane has read it. No barrier of the block in the loop.
//
// The kernel before in the stream, where the launch overlaps with it, is waited for before anything is read.
//
// Rows at or beyond the length are not read: a warp writes zeros in their place. They are in a sequence's last tile, after
// which nothing is copied any more.
//
// PTX ISA: "cp.async.bulk", "mbarrier", "barrier.cluster", and those of sm80_gqa_decode.cuh.
#include "plan.cuh"

#include "bulk_copies.cuh"
#include "cluster_merge.cuh"
#include "gqa_decode_arguments.h"
#include "gqa_decode_block.cuh"
#include "gqa_decode_lanes.h"
#include "split_kv.cuh"
#include "types.cuh"

namespace cubit {

/// One warp's ring of stages and the barriers of their arrival.
class BulkRing {
 public:
  __device__ __forceinline__ BulkRing(uint32 stages, uint32 barriers, const plan::Cache& cache, int length)
      : stages_(stages), barriers_(barriers), cache_(cache), length_(length) {
    if (lane_index() == 0) {
#pragma unroll
      for (int stage = 0; stage < plan::kStages; ++stage) init_barrier(barrier(stage));
      fence_barrier_init();
    }
    __syncwarp();
  }

  /// Starts the copies of tokens first … first + 15, as far as there are any.
  __device__ __forceinline__ void fetch(int stage, int first) const {
    const int rows = min(kTileTokens, length_ - first);
    const int lane = lane_index();
    const bool is_value = lane >= kTileTokens;
    const CacheRows src = is_value ? cache_.values(first) : cache_.keys(first);
    if (lane == 0) expect_bytes(barrier(stage), 2 * rows * Format::kRowBytes);
    __syncwarp();  // every lane has read what was in the stage
    const int row = lane % kTileTokens;
    const bool together = kRowsFollow && src.stride == Format::kRowBytes;
    if (together ? row > 0 : row >= rows) return;
    const uint32 bytes = (together ? rows : 1) * Format::kRowBytes;
    copy_bulk(this->stage(stage) + plan::kv_stage(lane, 0), src.row(row), bytes, barrier(stage));
  }

  /// Until the tile that begins at token `first` is there; zeros stand for rows beyond the length.
  __device__ __forceinline__ void wait(int stage, uint32 parity, int first) const {
    wait_barrier(barrier(stage), parity);
    const int rows = length_ - first;
    if (rows >= kTileTokens) return;
    const int lane = lane_index();
    if (lane % kTileTokens >= rows) {
#pragma unroll 1
      for (int byte = 0; byte < Format::kRowBytes; byte += 16) {
        const uint32 at = this->stage(stage) + plan::kv_stage(lane, byte);
        store_shared(at, make_float4(0.f, 0.f, 0.f, 0.f));  // access: zeros beyond the length
      }
    }
    __syncwarp();
  }

  __device__ __forceinline__ uint32 stage(int stage) const { return stages_ + stage * kStageBytes; }

 private:
  /// Whether a row begins where the last one ends, also in a stage.
  static constexpr bool kRowsFollow = plan::kKvStagePitch == Format::kRowBytes;
  static_assert(Format::kRowBytes % 16 == 0);

  __device__ __forceinline__ uint32 barrier(int stage) const { return barriers_ + 8 * stage; }

  uint32 stages_;
  uint32 barriers_;
  plan::Cache cache_;
  int length_;
};

/// A warp's tiles of the chunks of a share: the first chunk's, and one every chunk.
struct Tiles {
  int first;  // token
  int count;

  __device__ __forceinline__ int token(int tile) const { return first + tile * kChunkTokens; }
};

__device__ __forceinline__ Tiles tiles_of(const Share& share, int length, int warp) {
  const int first = share.first * kChunkTokens + warp * kTileTokens;
  const int last = min(share.last * kChunkTokens, length);
  return {first, last > first ? (last - first + kChunkTokens - 1) / kChunkTokens : 0};
}

/// One warp's tiles. The first kStages of them are on their way.
__device__ __forceinline__ void walk(const Tiles& tiles, int length, const BulkRing& ring, const Format::Query& query,
                                     Softmax& softmax, Format::Accumulator& output) {
  int slot = 0;
  uint32 parity = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles.count; ++tile) {
    const int first = tiles.token(tile);
    ring.wait(slot, parity, first);
    attend(query, ring.stage(slot), first, length, softmax, output);
    if (tile + plan::kStages < tiles.count) ring.fetch(slot, tiles.token(tile + plan::kStages));
    if (++slot == plan::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kWarps * 32, plan::kBlocksPerSm)
    gqa_decode(const __grid_constant__ cubit::GqaDecodeArguments args) {
  using namespace cubit;
  extern __shared__ __align__(128) unsigned char shared[];
  const int split = static_cast<int>(blockIdx.x % args.splits);
  // Splits are neighbours, as a cluster wants them, and so are the clusters of the head groups.
  const uint32 group = blockIdx.x / args.splits;
  const int head_group = static_cast<int>(group % plan::kHeadGroups);
  const int sequence = static_cast<int>(group / plan::kHeadGroups);  // batch · kv_heads + kv_head
  const int kv_head = sequence % args.kv_heads;
  const int batch = sequence / args.kv_heads;
  const int warp = warp_index();

  allow_next_kernel();
  wait_for_previous_kernel();
  const int length = length_of(args, batch);
  const Share share = share_of((length + kChunkTokens - 1) / kChunkTokens, args.splits, split);

  if (split >= share.active && !args.clustered) return;

  Softmax softmax;
  Format::Accumulator output;
  {
    const uint32 base = settled(shared_address(shared));
    const BulkRing ring(base + warp * plan::kStages * kStageBytes, base + plan::kBarriersAt + 8 * warp * plan::kStages,
                        plan::Cache::rows(args, batch, kv_head), length);
    const Tiles tiles = tiles_of(share, length, warp);
#pragma unroll 1
    for (int tile = 0; tile < min(tiles.count, plan::kStages); ++tile) ring.fetch(tile, tiles.token(tile));
    // The query arrives while the first tiles do.
    Format::Query query;
    load_block_query(query, args, batch, kv_head, head_group);
    walk(tiles, length, ring, query, softmax, output);
  }
  softmax.finish();

  __syncthreads();  // warps write where others' stages were
  const WarpResults results = results_in(shared);
  store_results(output, softmax, results, warp);
  __syncthreads();

  if (args.clustered) {
    merge_cluster(args, batch, kv_head, head_group, static_cast<uint32>(split), static_cast<uint32>(args.splits),
                  results);
  } else {
    merge(args, share, batch, kv_head, head_group, split, results);
  }
}
