// Work split of a GEMM whose blocks have few columns and all of k: the warps of a block are teams of one, each with a
// part of k and a ring of stages of its own, so that nobody waits for another before the end, where the sums meet in
// shared memory.
#pragma once

#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "kernels/w4a16_gemm_arguments.h"

namespace cubit {

/// What a team computes: see Work. Of a tile part `team` of args.splits.
class IntraBlockSplitKScheduler {
 public:
  __device__ __forceinline__ explicit IntraBlockSplitKScheduler(const W4a16GemmArguments& args) : args_(args) {}

  static __device__ __forceinline__ constexpr bool computes_whole_tiles() { return false; }
  static constexpr bool kHasAtomics = false;
  __device__ __forceinline__ WorkTile first() const {
    return work_tile_of(args_, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), warp_index());
  }
  static __device__ __forceinline__ constexpr bool next(WorkTile&) { return false; }

 private:
  const W4a16GemmArguments& args_;
};

}  // namespace cubit
