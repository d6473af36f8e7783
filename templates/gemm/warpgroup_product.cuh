// Accumulator and MMA role of the loops with wgmma: which instruction multiplies, and what its accumulators are.
//
// Interface: Sum, the type of an accumulator; Sums, the accumulators of a thread; start(sums, a, b, accumulate) for one
// step along k; and settle(sums) after the wait for the products. In sm90_gemm.cuh a warp has two tiles of 16 features,
// whose accumulators are sums[block of 8 tokens][tile]: start(sums, tile, a, b, accumulate). Accumulator i of a block
// of 8 tokens belongs to row g (i = 0, 1) or g + 8 (i = 2, 3) of the warp's 16 features, and to token 2 q (i = 0, 2) or
// 2 q + 1 (i = 1, 3), in lane 4 g + q.
//
// In the persistent loop sums.begin() begins a tile, and kRestarts says that the accumulators start again with each
// stage: see PromotedProduct.
//
// PTX ISA: "wgmma.mma_async", register fragments of m64nNk16 and m64nNk32.
#pragma once

#include "core/types.cuh"
#include "core/wgmma.cuh"

namespace cubit {

/// Products of 16-bit operands, accumulated in fp32.
template <class Element, int kTokens>
struct Float32Product {
  using Sum = float;
  static constexpr bool kRestarts = false;
  struct Sums {
    float of[kTokens / 8][4];  ///< per block of 8 tokens

    __device__ __forceinline__ void begin() {}

    /// Multiplies the sums of row g by `first`, and those of row g + 8 by `second`.
    __device__ __forceinline__ void multiply_rows(float first, float second) {
#pragma unroll
      for (int i = 0; i < kTokens / 8; ++i) {
        of[i][0] *= first;
        of[i][1] *= first;
        of[i][2] *= second;
        of[i][3] *= second;
      }
    }
  };

  template <class Operand>
  static __device__ __forceinline__ void start(Sums& sums, const Operand& a, uint64 b, uint32 accumulate) {
    start_product<Element>(sums.of, a, b, accumulate);
  }
  static __device__ __forceinline__ void start(float (&sums)[kTokens / 8][2][4], int tile, const uint32 (&a)[4],
                                               uint64 b, uint32 accumulate) {
    start_product<Element>(sums, tile, a, b, accumulate);
  }
  static __device__ __forceinline__ void settle(Sums& sums) { settle_sums(sums.of); }
};

/// Products of bytes in shared memory. Accumulator: int for signed bytes, float for e4m3.
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
