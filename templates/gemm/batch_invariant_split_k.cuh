// Work split of a GEMM whose rows do not depend on each other (batch invariance): the parts of k follow from n and k
// alone, and a row's sum is that of its parts in order, whoever adds them.
//
// Few tiles: a block for each part, as split-K has them. Many tiles: a block takes whole tiles, and of each all parts,
// one after another: it needs no counters, and no other block's sums.
#pragma once

#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "kernels/w4a16_gemm_arguments.h"

namespace cubit {

/// What a block computes: see Work.
class BatchInvariantScheduler {
 public:
  __device__ __forceinline__ explicit BatchInvariantScheduler(const W4a16GemmArguments& args) : args_(args) {}

  /// Whether the block has all parts of its tiles; else it has one part.
  __device__ __forceinline__ bool computes_whole_tiles() const { return args_.whole_tiles > 0; }
  static constexpr bool kHasAtomics = false;
  __device__ __forceinline__ WorkTile first() {
    return computes_whole_tiles() ? first_split(blockIdx.x) : work_tile_of_block(args_);
  }
  /// False where there is none left.
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

  const W4a16GemmArguments& args_;
};

}  // namespace cubit
