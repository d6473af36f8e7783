// Tile scheduler of the persistent GEMM: the tiles of a cluster, and which slabs of k it computes of each.
//
// Whole tiles: clusters take tiles c, c + clusters, c + 2 clusters, … of one order. The order visits groups of
// `tile_group` rows of token tiles, and within a group the feature tiles one after another. Tiles that are computed at
// the same time then form a compact block of the output, which needs few different weights and activations from the L2.
//
// Stream-K: whole tiles rarely fill the last round of clusters. The units of the last tiles form one sequence, and each
// cluster takes the same number of neighbouring units, so that all clusters end at the same time. The cluster with a
// tile's last unit owns the tile: it adds the partial sums of the clusters before it, which have the tile's earlier
// units. A cluster walks through its units from the last tile to the first. Behind its whole tiles it thus makes the
// partial sums that another cluster waits for, and waits, at the end, for clusters of lower index only. There is always
// progress where a device starts clusters in the order of their indices. All known devices do; CUDA promises nothing.
//
// Interface of a scheduler: has_tile(), tile(), and advance() to the cluster's next tile. All threads of a cluster walk
// through the same tiles. tile() computes everything from few registers, and a caller that needs them between two calls
// keeps the compiler from remembering the first result by a call of settle().
#pragma once

#include "core/types.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "kernels/gemm/persistent_gemm_arguments.h"

namespace cubit {

struct GemmTile {
  int tokens;      ///< index of the tile along tokens
  int features;    ///< index of the cluster's tile along features
  int first_slab;  ///< of the cluster's slabs of the tile
  int end_slab;
  int partials;  ///< partial sums to add, of so many clusters before this one
  bool is_part;  ///< another cluster owns the tile
};

class GroupedTiles {
 public:
  __device__ __forceinline__ explicit GroupedTiles(const PersistentGemmArguments& args)
      : args_(args), index_(static_cast<int64>(cluster())) {
    if (args.share > 0) end_unit_ = first_unit_of(cluster() + 1);
  }

  /// Index of this block's cluster.
  static __device__ __forceinline__ int cluster() { return static_cast<int>(blockIdx.x / 2); }

  __device__ __forceinline__ bool has_tile() const { return is_whole() || first_unit_of(cluster()) < end_unit_; }
  __device__ __forceinline__ void advance() {
    if (is_whole()) {
      index_ += gridDim.x / 2;
    } else {
      end_unit_ = first_unit();
    }
  }
  __device__ __forceinline__ GemmTile tile() const {
    GemmTile tile;
    if (is_whole()) {
      place(tile, index_);
      tile.first_slab = 0;
      tile.end_slab = args_.slabs;
      tile.partials = 0;
      tile.is_part = false;
    } else {
      const int start = first_unit_of_tile();
      place(tile, args_.whole_tiles + start / args_.units);
      tile.first_slab = (first_unit() - start) * persistent_lanes::kUnitSlabs;
      tile.end_slab = min((end_unit_ - start) * persistent_lanes::kUnitSlabs, args_.slabs);
      tile.is_part = end_unit_ < start + args_.units;
      tile.partials = tile.is_part ? 0 : cluster() - cluster_of(start);
    }
    return tile;
  }
  __device__ __forceinline__ void settle() { asm volatile("" : "+l"(index_), "+r"(end_unit_)); }

 private:
  __device__ __forceinline__ bool is_whole() const { return index_ < args_.whole_tiles; }
  /// First unit of the divided tile that has the last unit which is left.
  __device__ __forceinline__ int first_unit_of_tile() const { return (end_unit_ - 1) / args_.units * args_.units; }
  /// The cluster's first unit of that tile.
  __device__ __forceinline__ int first_unit() const { return max(first_unit_of(cluster()), first_unit_of_tile()); }

  __device__ __forceinline__ void place(GemmTile& tile, int64 index) const {
    const int64 group_tiles = static_cast<int64>(args_.tile_group) * args_.feature_tiles;
    const int group = static_cast<int>(index / group_tiles);
    const int first = group * args_.tile_group;
    const int rows = min(args_.tile_group, args_.token_tiles - first);
    const int rest = static_cast<int>(index - group * group_tiles);
    tile.tokens = first + rest % rows;
    tile.features = rest / rows;
  }
  __device__ __forceinline__ int first_unit_of(int cluster) const {
    return cluster * args_.share + min(cluster, args_.larger);
  }
  /// Cluster that takes a unit of the sequence.
  __device__ __forceinline__ int cluster_of(int unit) const {
    const int of_larger = args_.larger * (args_.share + 1);
    return unit < of_larger ? unit / (args_.share + 1) : args_.larger + (unit - of_larger) / args_.share;
  }

  const PersistentGemmArguments& args_;
  int64 index_;       ///< of the next whole tile
  int end_unit_ = 0;  ///< of the cluster's units that are left
};

}  // namespace cubit
