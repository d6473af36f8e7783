// Parts of k whose blocks are clusters of two (family sm90, split-K with an even number of parts, not gated): the two
// send each other their sums of half of the rows each, before anything goes through the L2. So half as
// many parts are stored, of half the rows per block, and of two parts none.
//
// Parts 2 i and 2 i + 1 of a tile are a pair: blockIdx is (part, block of columns, block of rows). A tile has its
// counters and the places of its parts as without pairs, but two counters for a warp, one for each half of the rows;
// the sums of pair i are in place i. Sums are added in an order that depends on nothing: those of a pair, and pairs in
// order.
//
// Shared memory: that of the stages (two_cta_cluster.cuh). Each warp has its sums from the other block's warp of the same number.
#pragma once

#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "gemm/w4a16_gemm_block.cuh"
#include "kernels/w4a16_gemm_arguments.h"
#include "pipeline/two_cta_cluster.cuh"

namespace cubit {

/// The part of a block of a grid (parts, column tiles, row tiles).
__device__ __forceinline__ WorkTile work_tile_of_clustered_block(const W4a16GemmArguments& args) {
  return work_tile_of(args, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
}

/// Stores the sums of a pair's half of the rows; true in the last of the warps that have the same: `half` is then the
/// sum of all pairs.
template <int kHalf>
__device__ __forceinline__ bool merge_clusters(const W4a16GemmArguments& args, const WorkTile& work_tile,
                                               RowSums (&half)[kHalf]) {
  constexpr int kClustersAtOnce = kHalf > 2 ? 4 : 8;
  constexpr int kSplitBytes = plan::kWarps * kWarpSumsBytes;
  const int rank = work_tile.split % 2;
  const int64 tile = work_tile.column_tile * static_cast<int64>(args.row_tiles) + work_tile.row_tile;
  char* const partials = reinterpret_cast<char*>(args.partial) + tile * args.splits * kSplitBytes +
                         warp_index() * kWarpSumsBytes + rank * (kWarpSumsBytes / 2) + 16 * lane_index();
  char* const own = partials + static_cast<int64>(work_tile.split / 2) * kSplitBytes;
  const int rows = args.m - work_tile.row_tile * plan::kTileM - 8 * rank * kHalf - 2 * (lane_index() % 4);
  const auto has_rows = [&](int row_block) { return 8 * row_block < rows; };
#pragma unroll
  for (int i = 0; i < 2 * kHalf; ++i) {
    const float(&sum)[4] = half[i / 2][i % 2];
    if (has_rows(i / 2))
      *reinterpret_cast<float4*>(own + 16 * kWarpSize * i) = make_float4(sum[0], sum[1], sum[2], sum[3]);
  }
  if (!last_warp(args.counters + (2 * tile + rank) * plan::kWarps + warp_index(), work_tile.splits / 2)) return false;
#pragma unroll
  for (int i = 0; i < 8 * kHalf; ++i) half[i / 8][i / 4 % 2][i % 4] = 0.f;
  add_splits<kClustersAtOnce, kSplitBytes>(half, partials, work_tile.splits / 2, has_rows);
  return true;
}

/// What becomes of a part's sums. `shared`: the stages; `barriers`: the block's and the warp's. kHalf: of the warp's
/// tiles of 8 rows those that it keeps.
template <int kHalf = kRowTiles / 2>
__device__ __forceinline__ void merge_cluster(const W4a16GemmArguments& args, const WorkTile& work_tile, uint32 shared,
                                              ClusterBarriers barriers, const Sums& sums) {
  if constexpr (kHalf > 0) {
    constexpr int kHalfBytes = kWarpSumsBytes / 2;
    const int warp = warp_index();
    const uint32 rank = work_tile.split % 2;
    const uint32 lane_at = shared + warp * kHalfBytes + 16 * lane_index();
    // Element j of item i of the rows that are the block's own, or of the other's.
    const auto sum_of = [&](bool is_own, int i, int j) {
      const float low = sums[0][i / 2][i % 2][j];
      const float high = sums[0][kHalf + i / 2][i % 2][j];
      return (rank == 0) == is_own ? low : high;
    };
    if (elect_one()) expect_bytes(barriers.sent, kHalfBytes);
    wait_barrier_of_cluster(barriers.free, 0);
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) {
      send(address_in_peer(lane_at + 16 * kWarpSize * i),
           make_float4(sum_of(false, i, 0), sum_of(false, i, 1), sum_of(false, i, 2), sum_of(false, i, 3)),
           address_in_peer(barriers.sent));
    }
    wait_barrier_of_cluster(barriers.sent, 0);
    RowSums half[kHalf];
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) {
      float other[4];
      load_shared(other, lane_at + 16 * kWarpSize * i);
#pragma unroll
      for (int j = 0; j < 4; ++j) half[i / 2][i % 2][j] = sum_of(true, i, j) + other[j];
    }
    const int first = static_cast<int>(rank) * kHalf;
    if (work_tile.splits > 2 && !merge_clusters(args, work_tile, half)) return;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) store_rows(args, work_tile, warp, first + i, half[i], half[i]);
  }
}

}  // namespace cubit
