// Scales of a KV cache that are separate tensors.
//
// The scales of a tile are loaded while the previous tile is in use. Each lane loads the scales of one row: lanes 0 …
// 15 of the keys' rows, lanes 16 … 31 of the values' rows. Shuffles distribute the scales to the lanes that use them. A
// number format says with its type RowScales how many scales a row has, for keys and values separately.
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "kv_format/scale.cuh"

namespace cubit {

/// kPerRow is the number of scales of each row; 0 means that there are none, or that all rows share one scale.
template <class StoredScale, int kPerRow>
struct RowScales {
  using Stored = StoredScale;
  static constexpr int kCount = kPerRow;
};

/// Common members of number formats whose rows need no separate scales.
struct WithoutScales {
  using Scales = RowScales<float, 0>;
  static constexpr bool kAnyFactor = false;
  static constexpr bool kSumsWeights = false;

  static __device__ __forceinline__ float key_factor(const GqaDecodeArguments&) { return 1.f; }
  template <class Accumulator>
  static __device__ __forceinline__ void scale_outputs(Accumulator&, const GqaDecodeArguments&) {}
};

/// Scales of a tile; each lane holds the scales of one row of keys or values.
template <class KeyScales, class ValueScales,
          int kEach = (KeyScales::kCount > ValueScales::kCount ? KeyScales::kCount : ValueScales::kCount)>
class TileScales {
 public:
  static constexpr bool kAny = true;

  /// The scale tensor from which the lane loads, either the keys' or the values'.
  template <class Cache>
  static __device__ __forceinline__ auto rows(const Cache& cache) {
    return cache.scale_rows(lane_index() < lanes::kTileRows);
  }

  /// Loads the scales of the tile from token `first` on; `place` is the place of the lane's row.
  template <class Rows, class Place, class Tokens>
  __device__ __forceinline__ void fetch(const Rows& rows, Place place, int first, const Tokens& tokens) {
    const bool exists = tokens.has(first + lane_index() % lanes::kTileRows);
    fetch_row(rows, place, exists);
  }
  /// Loads the scales of any tile; `exists` says whether the lane's row exists.
  template <class Rows, class Place>
  __device__ __forceinline__ void fetch_row(const Rows& rows, Place place, bool exists) {
    const bool is_key = lane_index() < lanes::kTileRows;
    const char* const src = rows.at(place);
    const int count = is_key ? KeyScales::kCount : ValueScales::kCount;
#pragma unroll
    for (int i = 0; i < kEach; ++i) own_[i] = exists && i < count ? load(src, i, is_key) : 0.f;
  }

  /// Scale of row `row` of the tile's keys (of_key) or values (of_value); called by all lanes of a warp.
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
