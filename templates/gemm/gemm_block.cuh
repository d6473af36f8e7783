// Common code of the GEMM kernels around their main loops: the columns of a block, the merge of split-K partial
// sums, and the call of the epilogue.
//
// Columns and rows: columns are output features n and rows are tokens m. The weights are the A operand of mma.m16n8k16,
// so columns are the M of the instruction. Warp w has all rows of kWarpStrips strips of 32 columns. A lane has four
// columns of a strip and rows 2c and 2c + 1 of each 8 rows, with c = lane % 4. Which four columns depends on the format
// until Format::arrange() has been called; afterwards they are the columns from gemm_lanes::first_column() on.
//
// With a gated epilogue, the warps of the block's first half have gate columns, and the warps of the second half have
// up-projection columns, which begin args.n / 2 further on.
//
// Merges of partial sums:
// - Split-K: every warp stores its accumulators. Among the warps with the same columns and rows, the last to arrive at
//   their counter adds all slices in order and sets the counter back to zero. The result does not depend on which warp
//   is last. See merge_splits.
// - Intra-block split-K: the warps of a block add their sums in shared memory first. See merge_warps and
//   merge_fragment.
// - Batch-invariant split-K: one block adds all slices of a tile in order. See add_previous_splits.
// - Atomic merge: sums are added in order of arrival if the launch requests it. See merge_atomically.
#pragma once

#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"
#include "kernels/gemm_arguments.h"

namespace cubit {

using Format = plan::Format;
using plan::Element;

constexpr int kBlockStrips = plan::kTileN / gemm_lanes::kStripColumns;
constexpr int kWarpStrips = kBlockStrips / plan::kWarps;  // strips of 32 columns per warp
constexpr int kRowTiles = plan::kTileM / 8;               // blocks of 8 rows
static_assert(kWarpStrips * plan::kWarps == kBlockStrips && kRowTiles * 8 == plan::kTileM);
// True if the warps of a block have the same columns and different slices of k: see intra_block_split_k.cuh. The block
// then has plan::kPartitionsK consumer warps, and plan::kWarps is 1.
constexpr bool kIntraBlockSplitK = plan::kPartitionsK > 1;
static_assert(!kIntraBlockSplitK || plan::kWarps == 1);

/// RowSums: accumulators of 8 rows of a strip, [tile of 16 columns][element of the mma accumulator]. Elements with even
/// index belong to row 2c, and elements with odd index to row 2c + 1. Sums: all accumulators of a warp, [strip][block
/// of 8 rows].
using RowSums = float[2][4];
using Sums = RowSums[kWarpStrips][kRowTiles];

constexpr int kWarpSumsBytes = 2 * 16 * kWarpSize * kWarpStrips * kRowTiles;
// With a gated epilogue: number of warps with gate columns. Warp w + kGateWarps has the matching up-projection columns.
constexpr int kGateWarps = kIntraBlockSplitK ? 1 : plan::kWarps / 2;
// Number of RowSums that a warp merges together, and number of slices whose loads of them are in flight together.
constexpr int kMergedTiles = plan::kMergedTiles;
constexpr int kAddedSplits = kMergedTiles > 2 ? 4 : 8;
static_assert(kWarpStrips * kRowTiles % kMergedTiles == 0);

/// Index of the warp's columns: warps with the same columns have the same index.
__device__ __forceinline__ int column_warp() { return kIntraBlockSplitK ? 0 : warp_index(); }

/// Column of the weights at offset `place` of the block's columns, or -1 if the weights have no such column.
__device__ __forceinline__ int weight_column(const GemmArguments& args, int column_tile, int place) {
  const int block = column_tile * plan::kTileN;
  if constexpr (plan::Epilogue::kGated) {
    const int half = args.n / 2;
    const int column = block / 2 + place % (plan::kTileN / 2);
    return column < half ? column + place / (plan::kTileN / 2) * half : -1;
  } else {
    return block + place < args.n ? block + place : -1;
  }
}

/// First of the lane's four columns in a strip of the block, or -1.
__device__ __forceinline__ int strip_column(const GemmArguments& args, int column_tile, int strip) {
  return weight_column(args, column_tile, gemm_lanes::kStripColumns * strip + gemm_lanes::first_column(lane_index()));
}

/// Barrier of the consumer warps alone, because a kernel may have producer warps.
__device__ __forceinline__ void sync_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(plan::kPartitionsK * plan::kWarps * kWarpSize) : "memory");
}

/// Stores output rows 8 · row_block … 8 · row_block + 7 of a strip, four neighbouring columns per store. With a gated
/// epilogue, `sums` are gate columns and `up_sums` are the matching up-projection columns.
__device__ __forceinline__ void store_rows(const GemmArguments& args, const WorkTile& work_tile, int strip,
                                           int row_block, RowSums& sums, RowSums& up_sums) {
  const int row = work_tile.row_tile * plan::kTileM + 8 * row_block;
  const int column = strip_column(args, work_tile.column_tile, strip);
  Format::arrange(sums);
  if constexpr (plan::Epilogue::kGated) Format::arrange(up_sums);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int own_row = row + 2 * (lane_index() % 4) + i;
    if (own_row >= args.m || column < 0) continue;
    const float values[4] = {sums[0][i], sums[0][2 + i], sums[1][i], sums[1][2 + i]};
    const float up_values[4] = {up_sums[0][i], up_sums[0][2 + i], up_sums[1][i], up_sums[1][2 + i]};
    plan::Epilogue::store(args, own_row, column, values, up_values);
  }
}

/// Stores the output of a tile whose sums are complete; all consumer warps call the function. With a gated epilogue,
/// the warps with up-projection columns pass their sums to the warps with gate columns through shared memory from
/// `shared` on. Nothing else may use that memory between the arrival of the last warp and the next barrier of the
/// caller.
__device__ __forceinline__ void store_output(const GemmArguments& args, const WorkTile& work_tile, uint32 shared,
                                             Sums& sums) {
  const int warp = warp_index();
  const uint32 up_sums_at = shared + warp % kGateWarps * kWarpSumsBytes + 16 * lane_index();
  if constexpr (plan::Epilogue::kGated) {
    sync_warps();  // no warp reads the previous contents any more
    if (warp >= kGateWarps) {
#pragma unroll
      for (int i = 0; i < 2 * kWarpStrips * kRowTiles; ++i) {
        const float(&sum)[4] = sums[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2];
        store_shared(up_sums_at + 16 * kWarpSize * i, make_float4(sum[0], sum[1], sum[2], sum[3]));
      }
    }
    sync_warps();
    if (warp >= kGateWarps) return;
  }
#pragma unroll
  for (int i = 0; i < kWarpStrips * kRowTiles; ++i) {
    RowSums& own = sums[i / kRowTiles][i % kRowTiles];
    RowSums up_sums = {};
    if constexpr (plan::Epilogue::kGated) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) load_shared(up_sums[tile], up_sums_at + 16 * kWarpSize * (2 * i + tile));
    }
    store_rows(args, work_tile, kWarpStrips * warp_index() + i / kRowTiles, i % kRowTiles, own, up_sums);
  }
}

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
    const float(&sum)[4] = sums[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2];
    const float4 value = make_float4(sum[0], sum[1], sum[2], sum[3]);
    if (has_rows(i / 2 % kRowTiles)) *reinterpret_cast<float4*>(own + 16 * kWarpSize * i) = value;
  }
  const int warp = warp_index() % kCounters;
  const int arrivals = plan::kWarps / kCounters * work_tile.splits;
  if (!last_warp(args.counters + tile * kCounters + warp, arrivals)) return;
#pragma unroll 1
  for (int first = 0; first < kWarpStrips * kRowTiles; first += kMergedTiles) {
    const char* const src = settled(partials + warp * kWarpSumsBytes + 2 * 16 * kWarpSize * first);
    const auto has_rows_of = [&](int i) { return has_rows((first + i) % kRowTiles); };
    RowSums merged[kMergedTiles] = {};
    RowSums up_sums[kMergedTiles] = {};
    add_splits<kAddedSplits, kSplitBytes>(merged, src, work_tile.splits, has_rows_of);
    if constexpr (plan::Epilogue::kGated)
      add_splits<kAddedSplits, kSplitBytes>(up_sums, src + kGateWarps * kWarpSumsBytes, work_tile.splits, has_rows_of);
#pragma unroll
    for (int i = 0; i < kMergedTiles; ++i) {
      const int tile_of_rows = first + i;
      store_rows(args, work_tile, kWarpStrips * warp + tile_of_rows / kRowTiles, tile_of_rows % kRowTiles, merged[i],
                 up_sums[i]);
    }
  }
}

/// Merges partial sums in order of arrival. The block must have no other work tile. A tile has one place for its sums,
/// per warp [accumulator][lane], and one counter per warp. With a gated epilogue these counters are followed by one
/// counter per pair of gate and up-projection warps.
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
      if (has_rows) merged[j / 4][j % 4] = load_sum_of_blocks(src + kValueBytes * j);
      if (kGated && has_rows)
        up_sums[j / 4][j % 4] = load_sum_of_blocks(src + kGateWarps * kWarpSumsBytes + kValueBytes * j);
    }
    store_rows(args, work_tile, kWarpStrips * warp + i / kRowTiles, i % kRowTiles, merged, up_sums);
  }
}

/// Adds the sums of the previous slices to the sums of this slice, in the same order as add_splits. Unless this slice
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
      if (work_tile.split > 0) before[i] = load_partial4(own + 16 * kWarpSize * (first + i));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      float(&sum)[4] = sums[(first + i) / 2 / kRowTiles][(first + i) / 2 % kRowTiles][(first + i) % 2];
      const float4 total =
          make_float4(before[i].x + sum[0], before[i].y + sum[1], before[i].z + sum[2], before[i].w + sum[3]);
      sum[0] = total.x;
      sum[1] = total.y;
      sum[2] = total.z;
      sum[3] = total.w;
      if (!is_last) *reinterpret_cast<float4*>(own + 16 * kWarpSize * (first + i)) = total;
    }
  }
}

/// sums += the partial sums of all warps of the block, in the order of the warps. The sums lie in shared memory from
/// `src` on.
__device__ __forceinline__ void add_warps(RowSums& sums, uint32 src) {
#pragma unroll
  for (int warp = 0; warp < plan::kPartitionsK; ++warp) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      float partial[4];
      load_shared(partial, src + warp * kWarpSumsBytes + 16 * kWarpSize * tile);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[tile][i] += partial[i];
    }
  }
}

// With intra-block split-K: number of output fragments of a block; a fragment is 8 rows of a strip. With a gated
// epilogue, fragment i of the gate columns belongs to fragment i + kOutputFragments of the up-projection columns.
constexpr int kOutputFragments = kWarpStrips * kRowTiles / (plan::Epilogue::kGated ? 2 : 1);
constexpr int kFragmentBytes = 2 * 16 * kWarpSize;  // sums of one fragment

/// Stores the block's sums of one output fragment; with a gated epilogue, those of its up-projection columns as well.
/// Returns true in the last warp to arrive among the warps with the same fragment of other slices of k. `sums` then
/// hold the total of all slices.
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
      const float4 value = make_float4(from[i][0], from[i][1], from[i][2], from[i][3]);
      if (has_rows(i)) *reinterpret_cast<float4*>(dst + 16 * kWarpSize * i) = value;
    }
  };
  const auto load = [&](RowSums(&to)[1], const char* src) {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[0][i / 4][i % 4] = 0.f;
    add_splits<kAtOnce, kWarpSumsBytes>(to, src, work_tile.splits, has_rows);
  };
  store(partials + own, sums[0]);
  if constexpr (plan::Epilogue::kGated) store(up_partials + own, up_sums[0]);
  if (!last_warp(args.counters + tile * kOutputFragments + fragment, work_tile.splits)) return false;
  load(sums, partials);
  if constexpr (plan::Epilogue::kGated) load(up_sums, up_partials);
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
    const float(&sum)[4] = sums[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2];
    store_shared(lane_at + warp_index() * kWarpSumsBytes + 16 * kWarpSize * i,
                 make_float4(sum[0], sum[1], sum[2], sum[3]));
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

/// Merges the sums of a work tile as the schedule requires and stores the output. `shared` is the address that
/// store_output may overwrite.
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
