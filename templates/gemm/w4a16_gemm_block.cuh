// What the families of the W4A16 GEMM share around their loops: which columns a block has, and the way from the warps'
// sums to the output: the merge of parts of k, and the epilogue.
//
// Warp w has the columns of kWarpStrips strips of 32 and all rows; its sums are accumulators of mma.m16n8k16, whose M
// is the columns: a lane has four columns of a strip and two rows of 8. Gated, the warps of the block's second half
// have the columns args.n / 2 further on than those of the first.
//
// Parts of k: every warp stores its accumulators; of the warps that have the same columns and rows the last at their
// counter adds all in order of their part, so the result does not depend on who was last, and sets the counter back to
// zero. Of teams, whose parts meet in their block first: see merge_warps and merge_fragment. In any order where that is
// asked for: see merge_atomically.
#pragma once

#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "kernels/w4a16_gemm_arguments.h"

namespace cubit {

using Format = plan::Format;
using plan::Element;

constexpr int kBlockStrips = plan::kTileN / gemm_lanes::kStripColumns;
constexpr int kWarpStrips = kBlockStrips / plan::kWarps;  // of columns, per warp
constexpr int kRowTiles = plan::kTileM / 8;               // of 8 rows
static_assert(kWarpStrips * plan::kWarps == kBlockStrips && kRowTiles * 8 == plan::kTileM);
constexpr bool kIntraBlockSplitK =
    plan::kTeams > 1;  // whose warps have parts of k of the same columns: see intra_block_split_k.cuh
static_assert(!kIntraBlockSplitK || plan::kWarps == 1);

/// Accumulators of 8 rows of a strip, [tile][element of the product's], and all of a warp.
using RowSums = float[2][4];
using Sums = RowSums[kWarpStrips][kRowTiles];

constexpr int kWarpSumsBytes = 2 * 16 * kWarpSize * kWarpStrips * kRowTiles;
constexpr int kGateWarps =
    kIntraBlockSplitK ? 1 : plan::kWarps / 2;  // gated: of a warp with gates and the one with what they are for
// In flight together when parts are merged: sums of 8 rows of a strip, and parts of each.
constexpr int kMergedTiles = plan::kMergedTiles;
constexpr int kAddedSplits = kMergedTiles > 2 ? 4 : 8;
static_assert(kWarpStrips * kRowTiles % kMergedTiles == 0);

/// The number of the warp among those that have different columns.
__device__ __forceinline__ int column_warp() { return kIntraBlockSplitK ? 0 : warp_index(); }

/// The column of the weights at a place of the block's, or -1 where there is none.
__device__ __forceinline__ int weight_column(const W4a16GemmArguments& args, int column_tile, int place) {
  const int block = column_tile * plan::kTileN;
  if constexpr (plan::Epilogue::kGated) {
    const int half = args.n / 2;
    const int column = block / 2 + place % (plan::kTileN / 2);
    return column < half ? column + place / (plan::kTileN / 2) * half : -1;
  } else {
    return block + place < args.n ? block + place : -1;
  }
}

/// The first of the lane's columns in a strip of the block.
__device__ __forceinline__ int strip_column(const W4a16GemmArguments& args, int column_tile, int strip) {
  return weight_column(args, column_tile, gemm_lanes::kStripColumns * strip + gemm_lanes::first_column(lane_index()));
}

/// A barrier of the warps that compute: a family may have others.
__device__ __forceinline__ void sync_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(plan::kTeams * plan::kWarps * kWarpSize) : "memory");
}

/// The 8 rows number `row_block` of a piece's tile in a strip, four neighbouring columns per store. Gated, `sums` are
/// of gates and `ups` of what they are for.
__device__ __forceinline__ void store_rows(const W4a16GemmArguments& args, const WorkTile& work_tile, int strip,
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

/// Of a piece that is all of k. Gated, the warps of the second 128 columns hand their sums to those of the first, in
/// shared memory that nothing else uses once all warps are here.
__device__ __forceinline__ void store_output(const W4a16GemmArguments& args, const WorkTile& work_tile, uint32 shared,
                                             Sums& sums) {
  const int warp = warp_index();
  const uint32 up_sums_at = shared + warp % kGateWarps * kWarpSumsBytes + 16 * lane_index();
  if constexpr (plan::Epilogue::kGated) {
    sync_warps();  // nobody still reads what was there
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

/// Stores the warp's sums; the last of the warps that have the same columns, or gated the columns of the same pair,
/// adds those of all parts and stores the output.
__device__ __forceinline__ void merge_splits(const W4a16GemmArguments& args, const WorkTile& work_tile,
                                             const Sums& sums) {
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

/// The same in the order in which parts come, of the only piece that a block has. A tile has one place for its sums, of
/// each warp [accumulator][lane]; of counters one for each warp, gated behind them one for each pair.
__device__ __forceinline__ void merge_atomically(const W4a16GemmArguments& args, const WorkTile& work_tile,
                                                 const Sums& sums) {
  constexpr int kValues = 8 * kWarpStrips * kRowTiles;  // of a lane
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

/// Adds the sums of the parts before a piece to its own, in order as add_splits does; but for the last part they are
/// kept for the next one, where only the thread itself reads them.
__device__ __forceinline__ void add_previous_splits(const W4a16GemmArguments& args, const WorkTile& work_tile,
                                                    Sums& sums) {
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

/// sums += those of all teams, in order, which the warps of a block have stored from `src` on.
__device__ __forceinline__ void add_warps(RowSums& sums, uint32 src) {
#pragma unroll
  for (int warp = 0; warp < plan::kTeams; ++warp) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      float partial[4];
      load_shared(partial, src + warp * kWarpSumsBytes + 16 * kWarpSize * tile);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[tile][i] += partial[i];
    }
  }
}

constexpr int kOutputFragments =
    kWarpStrips * kRowTiles / (plan::Epilogue::kGated ? 2 : 1);  // 8 rows of a strip of the output
constexpr int kFragmentBytes = 2 * 16 * kWarpSize;               // sums of 8 rows of a strip

/// Stores a block's sums of one item, gated those of its ups as well; true in the last of the warps that have the same
/// item of other parts of k, and the sums are then those of all parts.
__device__ __forceinline__ bool merge_fragment(const W4a16GemmArguments& args, const WorkTile& work_tile, int fragment,
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

/// Adds the sums of a block's teams, which meet on `shared`, and stores the output. kApart: no stage was there.
/// kHasSplits: of a piece that is not all of k the last block to arrive does.
template <bool kApart, bool kHasSplits>
__device__ __forceinline__ void merge_warps(const W4a16GemmArguments& args, const WorkTile& work_tile, uint32 shared,
                                            const Sums& sums) {
  const uint32 lane_at = shared + 16 * lane_index();
  if constexpr (!kApart) sync_warps();  // nobody still reads a stage
#pragma unroll
  for (int i = 0; i < 2 * kWarpStrips * kRowTiles; ++i) {
    const float(&sum)[4] = sums[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2];
    store_shared(lane_at + warp_index() * kWarpSumsBytes + 16 * kWarpSize * i,
                 make_float4(sum[0], sum[1], sum[2], sum[3]));
  }
  sync_warps();  // all sums are there
#pragma unroll 1
  for (int fragment = warp_index(); fragment < kOutputFragments; fragment += plan::kTeams) {
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

/// What becomes of a piece's sums. `shared`: for store_output.
template <class Scheduler>
__device__ __forceinline__ void finish_work_tile(const W4a16GemmArguments& args, const Scheduler& scheduler,
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
