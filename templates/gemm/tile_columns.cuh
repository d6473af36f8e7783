// The columns of a tile whose epilogue is not gated. A tile has columns of one layer only: tiles are counted layer by
// layer, and a layer's last tile may have fewer columns than other tiles.
#pragma once

#include "core/types.cuh"
#include "weight_format/fused_gemm_arguments.h"

namespace cubit {

/// Columns are counted through all layers.
struct TileColumns {
  int shift;  ///< tile · kColumns + shift is the tile's first column; negative behind a layer that ends in a tail tile
  int end;    ///< column behind the last column of the tile's layer
};

/// kColumns: columns of a full tile.
template <int kColumns>
__device__ __forceinline__ TileColumns columns_of_tile(const GemmArguments& args, int /*tile*/) {
  return {0, args.n};
}

template <int kColumns>
__device__ __forceinline__ TileColumns columns_of_tile(const FusedGemmArguments& args, int tile) {
  const FusedLayerArguments& second = args.more[0];
  const FusedLayerArguments& third = args.more[1];
  if (tile >= third.first_tile) return {third.first_column - third.first_tile * kColumns, args.n};
  if (tile >= second.first_tile) return {second.first_column - second.first_tile * kColumns, third.first_column};
  return {0, second.first_column};
}

}  // namespace cubit
