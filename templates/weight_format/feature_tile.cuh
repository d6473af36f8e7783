// A tile of the persistent GEMM along the features, and the columns of the weights that belong to it.
#pragma once

#include "core/types.cuh"
#include "gemm/persistent_gemm_lanes.h"

namespace cubit {

/// A block's tile along the outputs, and the columns of the weights that belong to it.
template <bool kGated>
struct FeatureTile {
  static constexpr int kOutputs = persistent_lanes::kBlockFeatures / (kGated ? 2 : 1);
  int first;  ///< output

  /// Column of the weights of feature `feature` of the block: see persistent_gemm_lanes.h.
  __device__ __forceinline__ int column(int n, int feature) const {
    return first + feature % kOutputs + (feature < kOutputs ? 0 : n / 2);
  }
};

}  // namespace cubit
