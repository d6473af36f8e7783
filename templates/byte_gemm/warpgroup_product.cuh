// Accumulator and MMA roles of the persistent loop for 8-bit operands in shared memory. Interface: see
// gemm/warpgroup_product.cuh.
//
// PTX ISA: "wgmma.mma_async", register fragments of m64nNk32.
#pragma once

#include "core/types.cuh"
#include "core/wgmma.cuh"

namespace cubit {

/// Accumulator: int for signed bytes, float for e4m3.
template <class Accumulator, int kTokens>
struct ByteWarpgroupProduct {
  using Sum = Accumulator;
  static constexpr bool kRestarts = false;
  struct Sums {
    Sum of[kTokens / 8][4];  ///< per block of 8 tokens

    __device__ __forceinline__ void begin() {}
  };

  static __device__ __forceinline__ void start(Sums& sums, uint64 a, uint64 b, uint32 accumulate) {
    start_byte_product(sums.of, a, b, accumulate);
  }
  static __device__ __forceinline__ void settle(Sums& sums) { settle_sums(sums.of); }
};

/// Products of e4m3 whose accumulators start again with each stage of 128 values along k. The tensor cores keep few
/// bits of the addends of an accumulator; fp32 additions of the stages' accumulators keep all bits of a float.
template <int kTokens>
struct PromotedProduct {
  using Sum = float;
  static constexpr bool kRestarts = true;
  struct Sums {
    Sum of[kTokens / 8][4];        ///< per block of 8 tokens
    Sum of_stage[kTokens / 8][4];  ///< sums of one stage, in the same order

    __device__ __forceinline__ void begin() {
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) of[i / 4][i % 4] = 0.f;
    }
    /// Adds the sums of a stage, whose products are complete.
    __device__ __forceinline__ void promote() {
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) of[i / 4][i % 4] = __fadd_rn(of[i / 4][i % 4], of_stage[i / 4][i % 4]);
    }
  };

  static __device__ __forceinline__ void start(Sums& sums, uint64 a, uint64 b, uint32 accumulate) {
    start_byte_product(sums.of_stage, a, b, accumulate);
  }
  static __device__ __forceinline__ void settle(Sums& sums) { settle_sums(sums.of_stage); }
};

}  // namespace cubit
