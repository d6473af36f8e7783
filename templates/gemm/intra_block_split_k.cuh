// Tile scheduler for intra-block split-K in the mma.sync kernel (sm80_gemm.cuh), for blocks with few columns.
//
// Each warp of a block computes all rows and columns of the block's tile, for its own split-K slice, and has its own
// ring of pipeline stages. In the main loop no warp waits for another. At the end the block adds the partial sums of
// its warps in shared memory.
#pragma once

#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

/// Enumerates the work tiles of a warp; the interface is that of TileScheduler. There is one: slice `warp_index()` of
/// the args.splits slices of the block's tile.
class IntraBlockSplitKScheduler {
 public:
  __device__ __forceinline__ explicit IntraBlockSplitKScheduler(const GemmArguments& args) : args_(args) {}

  static __device__ __forceinline__ constexpr bool computes_whole_tiles() { return false; }
  static constexpr bool kHasAtomics = false;
  __device__ __forceinline__ WorkTile first() const {
    return work_tile_of(args_, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), warp_index());
  }
  static __device__ __forceinline__ constexpr bool next(WorkTile&) { return false; }

 private:
  const GemmArguments& args_;
};

}  // namespace cubit
