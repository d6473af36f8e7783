// Cluster split-K of the sm_90 GEMM: the two blocks of a 2-CTA cluster compute neighbouring split-K slices of one tile
// and add their partial sums through distributed shared memory.
//
// The block of rank 0 keeps the first half of the tile's rows, and the block of rank 1 keeps the second half. Each
// block sends its sums of the other half to the other block. If the tile has more than two slices, each block then
// stores the cluster's sums of its half in the workspace, and the last warp to arrive adds the sums of all clusters.
// With two slices nothing is stored. The scheme needs an even number of slices and an epilogue that is not gated. A
// warp has one strip of 32 columns.
//
// Slices 2i and 2i + 1 of a tile form cluster i; blockIdx is (slice, column tile, row tile). The order of the additions
// is fixed: first the two slices of a cluster, then the clusters in order.
//
// Workspace: the partial sums have the layout of plain split-K (merge_splits in split_k_merge.cuh), but the place of
// slice i has the sums of cluster i. A tile has 2 · plan::kWarps counters: [half of the rows][warp].
//
// Shared memory: the received sums overwrite the pipeline stages (two_cta_cluster.cuh), [warp][fragment][lane] with 16
// bytes per lane. Each warp receives the sums of the warp with the same number in the other block.
#pragma once

#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/partial_sums.cuh"
#include "gemm/split_k.cuh"
#include "kernels/gemm/gemm_arguments.h"
#include "pipeline/two_cta_cluster.cuh"

namespace cubit {

/// Work tile of this block in a grid of (slices, column tiles, row tiles).
__device__ __forceinline__ WorkTile work_tile_of_clustered_block(const GemmArguments& args) {
  return work_tile_of(args, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
}

/// Stores the cluster's sums of the half of the rows that this block keeps; whole warps call the function. Returns true
/// in the warp that arrives last at the counter of these columns and rows; `half` then holds the sum over all clusters.
template <int kHalf>
__device__ __forceinline__ bool merge_clusters(const GemmArguments& args, const WorkTile& work_tile,
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
    if (has_rows(i / 2)) store_partial(own, i, half[i / 2][i % 2]);
  }
  if (!last_warp(args.counters + (2 * tile + rank) * plan::kWarps + warp_index(), work_tile.splits / 2)) return false;
  clear_sums(half);
  add_slices<kClustersAtOnce, kSplitBytes>(half, partials, work_tile.splits / 2, has_rows);
  return true;
}

/// Merges the partial sums of a slice and stores the output. All consumer warps of both blocks call the function, after
/// wait_for_cluster(). `shared` is the address of the stages; `barriers` are the block's exchange barriers, of which
/// `sent` belongs to this warp. The warp sends nothing before the other block has released its stages (`free`). kHalf:
/// number of the warp's blocks of 8 rows that this block keeps.
template <int kHalf = kRowTiles / 2>
__device__ __forceinline__ void merge_cluster(const GemmArguments& args, const WorkTile& work_tile, uint32 shared,
                                              ClusterBarriers barriers, const Sums& sums) {
  if constexpr (kHalf > 0) {
    constexpr int kHalfBytes = kWarpSumsBytes / 2;
    const int warp = warp_index();
    const uint32 rank = work_tile.split % 2;
    const uint32 lane_at = shared + warp * kHalfBytes + 16 * lane_index();
    // Sum j of the four sums i, either of the rows that this block keeps or of the rows that it sends.
    const auto sum_at = [&](bool is_own, int i, int j) {
      const Sum low = sums[0][i / 2][i % 2][j];
      const Sum high = sums[0][kHalf + i / 2][i % 2][j];
      return (rank == 0) == is_own ? low : high;
    };
    const auto sent_bits = [&](int i, int j) { return bits_of(sum_at(false, i, j)); };
    if (elect_one()) expect_bytes(barriers.sent, kHalfBytes);
    wait_barrier_of_cluster(barriers.free, 0);
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) {
      send(address_in_peer(lane_at + kFourSumsBytes * i),
           make_float4(sent_bits(i, 0), sent_bits(i, 1), sent_bits(i, 2), sent_bits(i, 3)),
           address_in_peer(barriers.sent));
    }
    wait_barrier_of_cluster(barriers.sent, 0);
    RowSums half[kHalf];
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) {
      float other[4];
      load_shared(other, lane_at + kFourSumsBytes * i);
#pragma unroll
      for (int j = 0; j < 4; ++j) half[i / 2][i % 2][j] = sum_at(true, i, j) + sum_of<Sum>(other[j]);
    }
    const int first = static_cast<int>(rank) * kHalf;
    if (work_tile.splits > 2 && !merge_clusters(args, work_tile, half)) return;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) store_rows(args, work_tile, warp, first + i, half[i], half[i]);
  }
}

}  // namespace cubit
