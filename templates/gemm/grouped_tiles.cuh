// Tile scheduler of the persistent GEMM: the tiles of a cluster, in grouped raster order.
//
// Clusters take tiles c, c + clusters, c + 2 clusters, … of one order. The order visits groups of `tile_group` rows of
// token tiles, and within a group the feature tiles one after another. Tiles that are computed at the same time then
// form a compact block of the output, which needs few different weights and activations from the L2.
//
// Interface of a scheduler: next(tile), which returns false after the cluster's last tile. All threads of a cluster
// walk through the same tiles.
#pragma once

#include "core/types.cuh"
#include "kernels/persistent_gemm_arguments.h"

namespace cubit {

struct GemmTile {
  int tokens;    ///< index of the tile along tokens
  int features;  ///< index of the cluster's tile along features
};

class GroupedTiles {
 public:
  __device__ __forceinline__ explicit GroupedTiles(const PersistentGemmArguments& args)
      : args_(args), index_(static_cast<int64>(blockIdx.x / 2)) {}

  __device__ __forceinline__ bool next(GemmTile& tile) {
    if (index_ >= static_cast<int64>(args_.token_tiles) * args_.feature_tiles) return false;
    const int64 group_tiles = static_cast<int64>(args_.tile_group) * args_.feature_tiles;
    const int group = static_cast<int>(index_ / group_tiles);
    const int first = group * args_.tile_group;
    const int rows = min(args_.tile_group, args_.token_tiles - first);
    const int rest = static_cast<int>(index_ - group * group_tiles);
    tile = {first + rest % rows, rest / rows};
    index_ += gridDim.x / 2;
    return true;
  }

 private:
  const PersistentGemmArguments& args_;
  int64 index_;
};

}  // namespace cubit
