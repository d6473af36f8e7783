// Scales of a KV cache that are tensors of their own. Those of a tile are loaded while the tile before it is used, each
// by one lane: lanes 0 … 15 have those of the keys' rows, the others those of the values', and shuffles hand them out.
//
// A number format says by its RowScales how many a row has: of keys and of values each their own.
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"
#include "kernels/gqa_decode_arguments.h"
#include "kv_format/scale.cuh"

namespace cubit {

/// kPerRow scales for each row. 0: there are none, or all rows share one.
template <class StoredScale, int kPerRow>
struct RowScales {
  using Stored = StoredScale;
  static constexpr int kCount = kPerRow;
};

/// What number formats whose rows hold all there is to know have in common.
struct WithoutScales {
  using Scales = RowScales<float, 0>;
  static constexpr bool kAnyFactor = false;
  static constexpr bool kSumsWeights = false;

  static __device__ __forceinline__ float key_factor(const GqaDecodeArguments&) { return 1.f; }
  template <class Accumulator>
  static __device__ __forceinline__ void scale_outputs(Accumulator&, const GqaDecodeArguments&) {}
};

/// Of a tile: of one row of keys or values per lane.
template <class KeyScales, class ValueScales,
          int kEach = (KeyScales::kCount > ValueScales::kCount ? KeyScales::kCount : ValueScales::kCount)>
class TileScales {
 public:
  static constexpr bool kAny = true;

  /// The scales that the lane loads, of the cache's keys or of its values.
  template <class Cache>
  static __device__ __forceinline__ auto rows(const Cache& cache) {
    return cache.scale_rows(lane_index() < lanes::kTileRows);
  }

  /// Of the tile from `first` on; `place`: of the lane's row.
  template <class Rows, class Place, class Tokens>
  __device__ __forceinline__ void fetch(const Rows& rows, Place place, int first, const Tokens& tokens) {
    const bool exists = tokens.has(first + lane_index() % lanes::kTileRows);
    fetch_row(rows, place, exists);
  }
  /// The same of any tile: `exists`, whether the lane's row does.
  template <class Rows, class Place>
  __device__ __forceinline__ void fetch_row(const Rows& rows, Place place, bool exists) {
    const bool is_key = lane_index() < lanes::kTileRows;
    const char* const src = rows.at(place);
    const int count = is_key ? KeyScales::kCount : ValueScales::kCount;
#pragma unroll
    for (int i = 0; i < kEach; ++i) own_[i] = exists && i < count ? load(src, i, is_key) : 0.f;
  }

  /// By all lanes of a warp: of row `row` of the tile's keys, or of its values.
  __device__ __forceinline__ float of_key(int row, int group) const { return __shfl_sync(kFullWarp, own_[group], row); }
  __device__ __forceinline__ float of_value(int row, int group) const {
    return __shfl_sync(kFullWarp, own_[group], lanes::kTileRows + row);
  }

 private:
  static __device__ __forceinline__ float load(const char* src, int i, bool is_key) {
    using OfKeys = Scale<typename KeyScales::Stored>;
    using OfValues = Scale<typename ValueScales::Stored>;
    if constexpr (ValueScales::kCount == 0) {
      return OfKeys::load(src + i * OfKeys::kBytes);
    } else if constexpr (KeyScales::kCount == 0 || kSameType<OfKeys, OfValues>) {
      return OfValues::load(src + i * OfValues::kBytes);
    } else {
      return is_key ? OfKeys::load(src + i * OfKeys::kBytes) : OfValues::load(src + i * OfValues::kBytes);
    }
  }

  float own_[kEach] = {};
};

template <class KeyScales, class ValueScales>
class TileScales<KeyScales, ValueScales, 0> {
 public:
  static constexpr bool kAny = false;

  struct NoRows {};
  template <class Cache>
  static __device__ __forceinline__ NoRows rows(const Cache&) {
    return {};
  }
  template <class Place, class Tokens>
  __device__ __forceinline__ void fetch(NoRows, Place, int, const Tokens&) {}
};

}  // namespace cubit
