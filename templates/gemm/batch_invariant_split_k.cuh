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
class WorkInTurn {
 public:
  __device__ __forceinline__ explicit WorkInTurn(const W4a16GemmArguments& args) : args_(args) {}

  /// Whether the block has all parts of its tiles; else it has one part.
  __device__ __forceinline__ bool takes_turns() const { return args_.turn_tiles > 0; }
  static constexpr bool kHasAtomics = false;
  __device__ __forceinline__ Piece first() { return takes_turns() ? first_part(blockIdx.x) : part_of_block(args_); }
  /// False where there is none left.
  __device__ __forceinline__ bool next(Piece& piece) {
    if (!takes_turns()) return false;
    if (piece.part + 1 < piece.parts) {
      piece = part_of(args_, piece.row_tile, piece.column_tile, piece.part + 1);
      return true;
    }
    const int64 tile = piece.column_tile * static_cast<int64>(args_.row_tiles) + piece.row_tile + gridDim.x;
    if (tile >= args_.turn_tiles) return false;
    piece = first_part(tile);
    return true;
  }

 private:
  __device__ __forceinline__ Piece first_part(int64 tile) const {
    return part_of(args_, static_cast<int>(tile % args_.row_tiles), static_cast<int>(tile / args_.row_tiles), 0);
  }

  const W4a16GemmArguments& args_;
};

}  // namespace cubit
