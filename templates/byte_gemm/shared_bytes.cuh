// Weight operand of the persistent GEMM for bytes [n][k], signed or e4m3, which wgmma reads from shared memory. The
// copies and the layout are those of dense weights, with 128 values along k in a stage.
//
// Interface of a weight operand: see weight_format/w4_register_operand.cuh.
#pragma once

#include "byte_gemm/arguments.h"
#include "byte_gemm/lanes.h"
#include "weight_format/dense_operand.cuh"

namespace cubit {

/// kPromotes: each stage has accumulators of its own, which are added to the sums when the stage's products are
/// complete. See PromotedProduct in gemm/warpgroup_product.cuh.
template <bool kGated, bool kPromotes>
struct SharedBytes : DenseOperand<kGated, byte_lanes::kStageK> {
  using Arguments = PersistentByteArguments;
  using DenseOperand<kGated, byte_lanes::kStageK>::DenseOperand;

  template <int kBuffer>
  static constexpr __device__ __forceinline__ bool begins_unit(int step) {
    return kPromotes && step == 0;
  }
  template <class Sums>
  __device__ __forceinline__ void change_unit(Sums& sums, int) const {
    if constexpr (kPromotes) sums.promote();
  }
  template <class Sums>
  __device__ __forceinline__ void scale(Sums& sums) const {
    if constexpr (kPromotes) sums.promote();
  }
};

}  // namespace cubit
