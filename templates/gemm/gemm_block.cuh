// Common code of the GEMM kernels around their main loops: the columns of a block, the sums of a warp, and the call of
// the epilogue. How slices of k are merged: see split_k_merge.cuh.
//
// Columns and rows: columns are output features n and rows are tokens m. The weights are the A operand of mma.m16n8k16,
// so columns are the M of the instruction. Warp w has all rows of kWarpStrips strips of 32 columns. A lane has four
// columns of a strip and rows 2c and 2c + 1 of each 8 rows, with c = lane % 4. Which four columns depends on the weight
// operand until Weights::arrange() has been called; afterwards they are the columns from gemm_lanes::first_column() on.
//
// With a gated epilogue, the warps of the block's first half have gate columns, and the warps of the second half have
// up-projection columns, which begin args.n / 2 further on.
#pragma once

#include "plan.cuh"

#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/partial_sums.cuh"
#include "gemm/split_k.cuh"
#include "gemm/tile_columns.cuh"
#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

using Weights = plan::Weights;
using Activations = plan::Activations;

// Values along k of a stage. The loops with mma.sync divide a row of its activations into steps of 64 bytes; the copies
// by TMA divide it into parts of 128 bytes.
constexpr int kStageK = plan::kStageK;
constexpr int kStageRowBytes = kStageK * Activations::kValueBytes;
constexpr int kStageSteps = kStageRowBytes / gemm_lanes::kStepBytes;
constexpr int kStageParts = kStageRowBytes / 128;
constexpr int kPartK = 128 / Activations::kValueBytes;
constexpr uint32 kPartActivations = 128 * plan::kTileM;  // bytes of one part of all rows

constexpr int kBlockStrips = plan::kTileN / gemm_lanes::kStripColumns;
constexpr int kWarpStrips = kBlockStrips / plan::kWarps;  // strips of 32 columns per warp
constexpr int kRowTiles = plan::kTileM / 8;               // blocks of 8 rows
static_assert(kWarpStrips * plan::kWarps == kBlockStrips && kRowTiles * 8 == plan::kTileM);
// True if the warps of a block have the same columns and different slices of k: see intra_block_split_k.cuh. The block
// then has plan::kPartitionsK consumer warps, and plan::kWarps is 1.
constexpr bool kIntraBlockSplitK = plan::kPartitionsK > 1;
static_assert(!kIntraBlockSplitK || plan::kWarps == 1);

/// RowSums: a lane's sums of 8 rows of a strip, [tile of 16 columns][element of the mma accumulator]. Elements with
/// even index belong to row 2c, and elements with odd index to row 2c + 1. Sums: all sums of a warp, [strip][block of 8
/// rows]. Products: the accumulators, which the scaling role (scaling.cuh) turns into sums.
using Sum = plan::Scaling::Sum;
using RowSums = Sum[2][4];
using Sums = RowSums[kWarpStrips][kRowTiles];
using RowProducts = plan::Product::Sum[2][4];
using Products = RowProducts[kWarpStrips][kRowTiles];

/// Without scaling the accumulators are the sums.
__device__ __forceinline__ void take_products(Sums& sums, const Products& products) {
#pragma unroll
  for (int i = 0; i < 8 * kWarpStrips * kRowTiles; ++i) {
    const int tile = i / 8;
    sums[tile / kRowTiles][tile % kRowTiles][i / 4 % 2][i % 4] =
        products[tile / kRowTiles][tile % kRowTiles][i / 4 % 2][i % 4];
  }
}

constexpr int kWarpSumsBytes = 2 * kFourSumsBytes * kWarpStrips * kRowTiles;
// With a gated epilogue: number of warps with gate columns. Warp w + kGateWarps has the matching up-projection columns.
constexpr int kGateWarps = kIntraBlockSplitK ? 1 : plan::kWarps / 2;

/// Index of the warp's columns: warps with the same columns have the same index.
__device__ __forceinline__ int column_warp() { return kIntraBlockSplitK ? 0 : warp_index(); }

/// Column of the weights at offset `place` of the block's columns, or -1 if the weights, or the layer that the tile
/// belongs to, have no such column. `args` are those of the kernel.
__device__ __forceinline__ int weight_column(const GemmArguments& args, int column_tile, int place) {
  const int block = column_tile * plan::kTileN;
  if constexpr (plan::Epilogue::kGated) {
    const int half = args.n / 2;
    const int column = block / 2 + place % (plan::kTileN / 2);
    return column < half ? column + place / (plan::kTileN / 2) * half : -1;
  } else {
    const TileColumns columns =
        columns_of_tile<plan::kTileN>(static_cast<const Weights::Arguments&>(args), column_tile);
    const int first = block + columns.shift;
    return first + place < columns.end ? first + place : -1;
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
  Weights::arrange(sums);
  if constexpr (plan::Epilogue::kGated) Weights::arrange(up_sums);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int own_row = row + 2 * (lane_index() % 4) + i;
    if (own_row >= args.m || column < 0) continue;
    const plan::Scaling::Values of(args, own_row, column);
    const plan::Scaling::Values up_of(args, own_row, column + args.n / 2);
    const float values[4] = {of(sums[0][i], 0), of(sums[0][2 + i], 1), of(sums[1][i], 2), of(sums[1][2 + i], 3)};
    const float up_values[4] = {up_of(up_sums[0][i], 0), up_of(up_sums[0][2 + i], 1), up_of(up_sums[1][i], 2),
                                up_of(up_sums[1][2 + i], 3)};
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
        store_shared(up_sums_at + kFourSumsBytes * i, pack_sums(sums[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2]));
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
      for (int tile = 0; tile < 2; ++tile)
        unpack_sums(up_sums[tile], load_shared4(up_sums_at + kFourSumsBytes * (2 * i + tile)));
    }
    store_rows(args, work_tile, kWarpStrips * warp_index() + i / kRowTiles, i % kRowTiles, own, up_sums);
  }
}

}  // namespace cubit
