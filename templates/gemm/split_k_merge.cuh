// Merges the partial sums of a tile whose k is divided among several blocks or warps, and stores the tile's output.
//
// - Split-K and stream-K: every warp stores its sums. Among the warps with the same columns and rows, the last one to
//   arrive at their counter adds all slices in order. The result does not depend on which warp is last. See
//   merge_splits.
// - Intra-block split-K: the warps of a block add their sums in shared memory first. See merge_warps and
//   merge_fragment.
// - Cluster split-K: the two blocks of a cluster add their sums in shared memory first. See cluster_split_k.cuh.
// - Batch-invariant split-K: one block adds all slices of a tile in order. See add_previous_splits.
// - Atomic merge: sums are added in order of arrival if the launch requests it. See merge_atomically.
//
// How sums are stored, counted and added: see partial_sums.cuh.
#pragma once

#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/partial_sums.cuh"
#include "gemm/split_k.cuh"
#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

// Number of RowSums that a warp merges together, and number of slices whose RowSums are loaded at the same time.
constexpr int kMergedTiles = plan::kMergedTiles;
constexpr int kAddedSplits = kMergedTiles > 2 ? 4 : 8;
static_assert(kWarpStrips * kRowTiles % kMergedTiles == 0);

/// Stores the warp's partial sums of a slice. The last warp to arrive, among the warps with the same columns (with a
/// gated epilogue, the warps with the gate columns and the matching up-projection columns), adds the sums of all slices
/// and stores the output. Partial sums lie in the workspace as [tile][slice][warp][accumulator][lane], with 16 bytes
/// per lane.
__device__ __forceinline__ void merge_splits(const GemmArguments& args, const WorkTile& work_tile, const Sums& sums) {
  constexpr int kSplitBytes = plan::kWarps * kWarpSumsBytes;
  constexpr int kCounters = plan::Epilogue::kGated ? kGateWarps : plan::kWarps;
  const int64 tile = work_tile.column_tile * static_cast<int64>(args.row_tiles) + work_tile.row_tile;
  char* const partials = reinterpret_cast<char*>(args.partial) + tile * args.splits * kSplitBytes + 16 * lane_index();
  char* const own = partials + static_cast<int64>(work_tile.split) * kSplitBytes + warp_index() * kWarpSumsBytes;
  const int rows = args.m - work_tile.row_tile * plan::kTileM - 2 * (lane_index() % 4);
  const auto has_rows = [&](int row_block) { return 8 * row_block < rows; };
#pragma unroll
  for (int i = 0; i < 2 * kWarpStrips * kRowTiles; ++i) {
    const int tile_of_rows = i / 2;
    if (has_rows(tile_of_rows % kRowTiles))
      store_partial(own, i, sums[tile_of_rows / kRowTiles][tile_of_rows % kRowTiles][i % 2]);
  }
  const int warp = warp_index() % kCounters;
  const int arrivals = plan::kWarps / kCounters * work_tile.splits;
  if (!last_warp(args.counters + tile * kCounters + warp, arrivals)) return;
#pragma unroll 1
  for (int first = 0; first < kWarpStrips * kRowTiles; first += kMergedTiles) {
    const char* const src = settled(partials + warp * kWarpSumsBytes + 2 * kFourSumsBytes * first);
    const auto has_rows_of = [&](int i) { return has_rows((first + i) % kRowTiles); };
    RowSums merged[kMergedTiles] = {};
    RowSums up_sums[kMergedTiles] = {};
    add_slices<kAddedSplits, kSplitBytes>(merged, src, work_tile.splits, has_rows_of);
    if constexpr (plan::Epilogue::kGated)
      add_slices<kAddedSplits, kSplitBytes>(up_sums, src + kGateWarps * kWarpSumsBytes, work_tile.splits, has_rows_of);
#pragma unroll
    for (int i = 0; i < kMergedTiles; ++i) {
      const int tile_of_rows = first + i;
      store_rows(args, work_tile, kWarpStrips * warp + tile_of_rows / kRowTiles, tile_of_rows % kRowTiles, merged[i],
                 up_sums[i]);
    }
  }
}

/// Merges partial sums in order of arrival. The block must have no further work tile. A tile has one place for its
/// sums, [warp][sum][lane] with 4 bytes per lane, and one counter per warp. With a gated epilogue these counters are
/// followed by one counter per pair of gate and up-projection warps.
__device__ __forceinline__ void merge_atomically(const GemmArguments& args, const WorkTile& work_tile,
                                                 const Sums& sums) {
  constexpr int kValues = 8 * kWarpStrips * kRowTiles;  // values per lane
  constexpr int kValueBytes = 4 * kWarpSize;
  constexpr bool kGated = plan::Epilogue::kGated;
  const int64 tile = work_tile.column_tile * static_cast<int64>(args.row_tiles) + work_tile.row_tile;
  unsigned* const counters = args.counters + tile * (plan::kWarps + (kGated ? kGateWarps : 0));
  char* const sums_of_tile =
      reinterpret_cast<char*>(args.partial) + tile * plan::kWarps * kWarpSumsBytes + 4 * lane_index();
  const int rows = args.m - work_tile.row_tile * plan::kTileM - 2 * (lane_index() % 4);
  int warp = warp_index();
  const bool is_first = begin_atomic_sums(counters + warp);
  const char* const own = settled(sums_of_tile + warp * kWarpSumsBytes);
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    if (8 * (i / 8 % kRowTiles) >= rows) continue;
    store_or_add(own + kValueBytes * i, sums[i / 8 / kRowTiles][i / 8 % kRowTiles][i / 4 % 2][i % 4], is_first);
  }
  if (!last_warp<kDone>(counters + warp, work_tile.splits)) return;
  if constexpr (kGated) {
    warp %= kGateWarps;
    if (!last_warp(counters + plan::kWarps + warp, 2)) return;
  }
#pragma unroll 1
  for (int i = 0; i < kWarpStrips * kRowTiles; ++i) {
    const char* const src = settled(sums_of_tile + warp * kWarpSumsBytes + 8 * kValueBytes * i);
    const bool has_rows = 8 * (i % kRowTiles) < rows;
    RowSums merged = {};
    RowSums up_sums = {};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (has_rows) load_sum_of_blocks(merged[j / 4][j % 4], src + kValueBytes * j);
      if (kGated && has_rows)
        load_sum_of_blocks(up_sums[j / 4][j % 4], src + kGateWarps * kWarpSumsBytes + kValueBytes * j);
    }
    store_rows(args, work_tile, kWarpStrips * warp + i / kRowTiles, i % kRowTiles, merged, up_sums);
  }
}

/// Adds the sums of the previous slices to the sums of this slice, in the same order as add_slices. Unless this slice
/// is the last, the total is stored in the workspace for the block's next slice, at [block][warp][accumulator][lane].
/// The thread that stores a total is the only one that reads it, so no barrier is needed.
__device__ __forceinline__ void add_previous_splits(const GemmArguments& args, const WorkTile& work_tile, Sums& sums) {
  constexpr int64 kBlockBytes = plan::kWarps * kWarpSumsBytes;
  constexpr int kItems = 2 * kWarpStrips * kRowTiles;
  constexpr int kAtOnce = kItems < 4 ? kItems : 4;
  char* const own = reinterpret_cast<char*>(args.partial) + blockIdx.x * kBlockBytes + warp_index() * kWarpSumsBytes +
                    16 * lane_index();
  const bool is_last = work_tile.split + 1 == work_tile.splits;
#pragma unroll
  for (int first = 0; first < kItems; first += kAtOnce) {
    float4 before[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      before[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (work_tile.split > 0) before[i] = load_partial4(own + kFourSumsBytes * (first + i));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      Sum(&four)[4] = sums[(first + i) / 2 / kRowTiles][(first + i) / 2 % kRowTiles][(first + i) % 2];
      add_sums(four, before[i]);
      if (!is_last) store_partial(own, first + i, four);
    }
  }
}

/// sums += the partial sums of all warps of the block, in the order of the warps. `src` is this lane's address, in
/// shared memory, of the partial sums of warp 0.
__device__ __forceinline__ void add_warps(RowSums& sums, uint32 src) {
#pragma unroll
  for (int warp = 0; warp < plan::kPartitionsK; ++warp) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      float partial[4];
      load_shared(partial, src + warp * kWarpSumsBytes + kFourSumsBytes * tile);
      add_sums(sums[tile], partial);
    }
  }
}

// With intra-block split-K: number of output fragments of a block; a fragment is 8 rows of a strip. With a gated
// epilogue, fragment i of the gate columns belongs to fragment i + kOutputFragments of the up-projection columns.
constexpr int kOutputFragments = kWarpStrips * kRowTiles / (plan::Epilogue::kGated ? 2 : 1);
constexpr int kFragmentBytes = 2 * kFourSumsBytes;  // sums of one fragment

/// Stores the block's sums of one output fragment; with a gated epilogue, those of its up-projection columns as well.
/// Returns true in the last warp to arrive among the warps that have this fragment in the slices of k. `sums`, and with
/// a gated epilogue `up_sums`, then hold the totals of all slices.
__device__ __forceinline__ bool merge_fragment(const GemmArguments& args, const WorkTile& work_tile, int fragment,
                                               RowSums (&sums)[1], RowSums (&up_sums)[1]) {
  constexpr int kAtOnce = 8;
  const int64 tile = work_tile.column_tile * static_cast<int64>(args.row_tiles) + work_tile.row_tile;
  char* const partials = reinterpret_cast<char*>(args.partial) + tile * args.splits * kWarpSumsBytes +
                         fragment * kFragmentBytes + 16 * lane_index();
  char* const up_partials = partials + kOutputFragments * kFragmentBytes;
  const int64 own = static_cast<int64>(work_tile.split) * kWarpSumsBytes;
  const int row = work_tile.row_tile * plan::kTileM + 8 * (fragment % kRowTiles) + 2 * (lane_index() % 4);
  const auto has_rows = [&](int) { return row < args.m; };
  const auto store = [&](char* dst, const RowSums& from) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (has_rows(i)) store_partial(dst, i, from[i]);
    }
  };
  store(partials + own, sums[0]);
  if constexpr (plan::Epilogue::kGated) store(up_partials + own, up_sums[0]);
  if (!last_warp(args.counters + tile * kOutputFragments + fragment, work_tile.splits)) return false;
  clear_sums(sums);
  add_slices<kAtOnce, kWarpSumsBytes>(sums, partials, work_tile.splits, has_rows);
  if constexpr (plan::Epilogue::kGated) {
    clear_sums(up_sums);
    add_slices<kAtOnce, kWarpSumsBytes>(up_sums, up_partials, work_tile.splits, has_rows);
  }
  return true;
}

/// Adds the partial sums of a block's warps, which the warps exchange at address `shared`, and stores the output. All
/// consumer warps call the function. In shared memory the sums are [warp][accumulator][lane], with 16 bytes per lane.
/// Each warp adds every plan::kPartitionsK-th output fragment. kApart: the sums do not overwrite pipeline stages, so no
/// barrier is needed before the stores. kHasSplits: a tile may be divided among blocks as well, and the last warp to
/// arrive at a fragment's counter then stores the fragment's output.
template <bool kApart, bool kHasSplits>
__device__ __forceinline__ void merge_warps(const GemmArguments& args, const WorkTile& work_tile, uint32 shared,
                                            const Sums& sums) {
  const uint32 lane_at = shared + 16 * lane_index();
  if constexpr (!kApart) sync_warps();  // no warp reads a stage any more
#pragma unroll
  for (int i = 0; i < 2 * kWarpStrips * kRowTiles; ++i) {
    store_shared(lane_at + warp_index() * kWarpSumsBytes + kFourSumsBytes * i,
                 pack_sums(sums[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2]));
  }
  sync_warps();  // all sums are stored
#pragma unroll 1
  for (int fragment = warp_index(); fragment < kOutputFragments; fragment += plan::kPartitionsK) {
    RowSums total[1] = {};
    RowSums up_sums[1] = {};
    add_warps(total[0], lane_at + fragment * kFragmentBytes);
    if constexpr (plan::Epilogue::kGated)
      add_warps(up_sums[0], lane_at + (kOutputFragments + fragment) * kFragmentBytes);
    if constexpr (kHasSplits) {
      if (work_tile.splits > 1 && !merge_fragment(args, work_tile, fragment, total, up_sums)) continue;
    }
    store_rows(args, work_tile, fragment / kRowTiles, fragment % kRowTiles, total[0], up_sums[0]);
  }
}

/// Merges the sums of a work tile as the schedule requires and stores the output. merge_warps and store_output may
/// overwrite shared memory from address `shared` on.
template <class Scheduler>
__device__ __forceinline__ void finish_work_tile(const GemmArguments& args, const Scheduler& scheduler,
                                                 const WorkTile& work_tile, uint32 shared, Sums& sums) {
  if constexpr (kIntraBlockSplitK) {
    merge_warps<false, false>(args, work_tile, shared, sums);
    return;
  }
  bool is_complete = work_tile.splits == 1;
  if (scheduler.computes_whole_tiles()) {
    add_previous_splits(args, work_tile, sums);
    is_complete = work_tile.split + 1 == work_tile.splits;
    if (!is_complete) return;
  }
  if constexpr (Scheduler::kHasAtomics) {
    if (!is_complete && args.adds_atomically != 0) {
      merge_atomically(args, work_tile, sums);
      end_thread();
    }
  }
  if (is_complete) {
    store_output(args, work_tile, shared, sums);
  } else {
    merge_splits(args, work_tile, sums);
  }
}

}  // namespace cubit
