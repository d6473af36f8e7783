// Accumulator and MMA role of the loops with wgmma: which instruction multiplies, and what its accumulators are.
//
// Interface: Sum, the type of an accumulator; Sums, the accumulators of a thread; start(sums, a, b, accumulate) for one
// step along k; and settle(sums) after the wait for the products. In sm90_gemm.cuh a warp has two tiles of 16 features,
// whose accumulators are sums[block of 8 tokens][tile]: start(sums, tile, a, b, accumulate). Accumulator i of a block
// of 8 tokens belongs to row g (i = 0, 1) or g + 8 (i = 2, 3) of the warp's 16 features, and to token 2 q (i = 0, 2) or
// 2 q + 1 (i = 1, 3), in lane 4 g + q.
//
// In the persistent loop sums.begin() begins a tile, and kRestarts says that the accumulators start again with each
// stage: see byte_gemm/warpgroup_product.cuh.
//
// PTX ISA: "wgmma.mma_async", register fragments of m64nNk16.
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

}  // namespace cubit
