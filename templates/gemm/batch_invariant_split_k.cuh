// Tile scheduler of the batch-invariant GEMM: a row's result does not depend on the other rows of the batch.
//
// The split-K slices follow from n and k alone, and the partial sums of a tile are always added in the order of the
// slices (fixed-order split-K), whichever block adds them.
//
// If there are few tiles, each block computes one slice of one tile, as in plain split-K. If there are many tiles, each
// block computes whole tiles: all slices of a tile one after another. The second case needs neither counters nor
// partial sums from other blocks.
#pragma once

#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

/// Enumerates the work tiles of a block; the interface is that of TileScheduler.
class BatchInvariantScheduler {
 public:
  __device__ __forceinline__ explicit BatchInvariantScheduler(const GemmArguments& args) : args_(args) {}

  /// Returns true if the block computes all slices of its tiles, and false if it computes one slice.
  __device__ __forceinline__ bool computes_whole_tiles() const { return args_.whole_tiles > 0; }
  static constexpr bool kHasAtomics = false;
  __device__ __forceinline__ WorkTile first() {
    return computes_whole_tiles() ? first_split(blockIdx.x) : work_tile_of_block(args_);
  }
  /// Advances to the block's next work tile. Returns false if there is none.
  __device__ __forceinline__ bool next(WorkTile& work_tile) {
    if (!computes_whole_tiles()) return false;
    if (work_tile.split + 1 < work_tile.splits) {
      work_tile = work_tile_of(args_, work_tile.row_tile, work_tile.column_tile, work_tile.split + 1);
      return true;
    }
    const int64 tile = work_tile.column_tile * static_cast<int64>(args_.row_tiles) + work_tile.row_tile + gridDim.x;
    if (tile >= args_.whole_tiles) return false;
    work_tile = first_split(tile);
    return true;
  }

 private:
  __device__ __forceinline__ WorkTile first_split(int64 tile) const {
    return work_tile_of(args_, static_cast<int>(tile % args_.row_tiles), static_cast<int>(tile / args_.row_tiles), 0);
  }

  const GemmArguments& args_;
};

}  // namespace cubit
