// Tile schedulers of a GEMM: which tiles and which range of k a block computes.
//
// - Split-K: the pipeline stages of each tile are divided evenly among `splits` blocks.
// - Stream-K (balanced schedule): the stages of all tiles form one sequence, which is divided evenly among the blocks.
//   A block may therefore finish one tile and begin another. Arithmetic alone tells which blocks share a tile.
//
// How the slices of a tile are merged: see split_k_merge.cuh.
#pragma once

#include "core/types.cuh"
#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

/// Unit of work: one output tile and the range of its pipeline stages (a split-K slice) that a block computes.
struct WorkTile {
  int row_tile;
  int column_tile;
  int first;   // first stage
  int last;    // one past the last stage
  int split;   // index of the slice among the tile's slices
  int splits;  // number of slices; 1 if the block computes all of k
};

/// Work tile of slice `split`. The stages of a tile are divided evenly among `splits` slices; if the division leaves a
/// remainder r, each of the first r slices has one more stage.
__device__ __forceinline__ WorkTile work_tile_of(const GemmArguments& args, int row_tile, int column_tile, int split) {
  const int least = args.split_stages;
  const int extra = args.stages - least * args.splits;
  const int first = split * least + min(split, extra);
  return {row_tile, column_tile, first, first + least + (split < extra ? 1 : 0), split, args.splits};
}

/// Work tile of this block in a grid of (row tiles, column tiles, splits).
__device__ __forceinline__ WorkTile work_tile_of_block(const GemmArguments& args) {
  return work_tile_of(args, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z));
}

/// Enumerates the work tiles of a block: a single slice with split-K, or several tiles in succession with stream-K.
/// With stream-K (args.share > 0), block b takes args.share consecutive stages of the sequence, and one more if b is
/// below args.larger. A slice of a tile is then the part of the tile's stages that one block takes.
class TileScheduler {
 public:
  __device__ __forceinline__ explicit TileScheduler(const GemmArguments& args) : args_(args) {
    if (args.share == 0) return;
    const int block = static_cast<int>(blockIdx.x);
    next_ = block * args.share + min(block, args.larger);
    end_ = next_ + args.share + (block < args.larger ? 1 : 0);
  }

  /// Returns true if one block computes all slices of its tiles and adds them itself; see BatchInvariantScheduler.
  static __device__ __forceinline__ constexpr bool computes_whole_tiles() { return false; }
  static constexpr bool kHasAtomics = false;  // true in AtomicSplitKScheduler
  __device__ __forceinline__ WorkTile first() { return args_.share == 0 ? work_tile_of_block(args_) : take(); }
  /// Advances to the block's next work tile. Returns false if there is none.
  __device__ __forceinline__ bool next(WorkTile& work_tile) {
    if (next_ >= end_) return false;
    work_tile = take();
    return true;
  }

 private:
  __device__ __forceinline__ WorkTile take() {
    const int tile = next_ / args_.stages;
    const int start = tile * args_.stages;
    const int first = next_ - start;
    const int last = min(args_.stages, end_ - start);
    const int owner = owner_of(start);
    next_ = start + last;
    return {tile % args_.row_tiles,
            tile / args_.row_tiles,
            first,
            last,
            static_cast<int>(blockIdx.x) - owner,
            owner_of(start + args_.stages - 1) - owner + 1};
  }

  /// Block that takes stage `stage` of the sequence.
  __device__ __forceinline__ int owner_of(int stage) const {
    const int of_larger = args_.larger * (args_.share + 1);
    return stage < of_larger ? stage / (args_.share + 1) : args_.larger + (stage - of_larger) / args_.share;
  }

  const GemmArguments& args_;
  int next_ = 0;  // index in the sequence of all stages of all tiles
  int end_ = 0;
};

/// TileScheduler for launches that may request the atomic merge.
class AtomicSplitKScheduler : public TileScheduler {
 public:
  using TileScheduler::TileScheduler;
  static constexpr bool kHasAtomics = true;
};

}  // namespace cubit
