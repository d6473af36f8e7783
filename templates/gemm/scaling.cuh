// Scaling role of a GEMM: what turns the accumulators of products into the sums of a work tile, and sums into values of
// the output.
//
// The sums of a work tile are what split-K merges. They have the layout of the accumulators.
//
// Interface of a scaling role:
//   Sum            type of a sum, of 4 bytes
//   kScalesGroups  true if add() takes the products of each quantisation group (with PromotedSums, of each stage)
//   kScalesEnd     true if the products of all stages are scaled together, at the end of a work tile
//   add(sums, products, scales)         sums += scales · products, for the accumulators of 8 rows of a strip. `scales`
//                                       are those of the lane's four columns, from the weight operand
//   Values(args, row, column)           what the outputs of a row need, from `column` of the weights on. Its operator()
//                                       (sum, i) is the value of column `column` + i, i < 4, before the epilogue.
//                                       Scales per column and per row belong here
//   Features<blocks>(args, columns)     the same in the persistent loop: what a lane's two features need, from their
//                                       columns of the weights. load_tokens(args, token) loads what 8 · blocks tokens
//                                       need, and value(sum, row, block, i) is the value of an accumulator of row 0 or
//                                       1 and of token i, 0 or 1, of the lane's two tokens of a block of 8
// With neither kScalesGroups nor kScalesEnd the sums are the accumulators, and add() is not needed.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Operands without scales, or scaled before they are multiplied: the sums are the values.
struct UnscaledSums {
  using Sum = float;
  static constexpr bool kScalesGroups = false;
  static constexpr bool kScalesEnd = false;

  struct Values {
    template <class Arguments>
    __device__ __forceinline__ Values(const Arguments&, int, int) {}
    __device__ __forceinline__ float operator()(float sum, int) const { return sum; }
  };
  template <int kBlocks>
  struct Features {
    template <class Arguments>
    __device__ __forceinline__ Features(const Arguments&, const int (&)[2]) {}
    template <class Arguments>
    __device__ __forceinline__ void load_tokens(const Arguments&, int) {}
    __device__ __forceinline__ float value(float sum, int, int, int) const { return sum; }
  };
};

/// Integer sums that are the output. A sum passes through the epilogue's floats as its bits.
struct IntegerSums : UnscaledSums {
  using Sum = int;

  struct Values {
    template <class Arguments>
    __device__ __forceinline__ Values(const Arguments&, int, int) {}
    __device__ __forceinline__ float operator()(int sum, int) const { return __int_as_float(sum); }
  };
  template <int kBlocks>
  struct Features : UnscaledSums::Features<kBlocks> {
    using UnscaledSums::Features<kBlocks>::Features;
    __device__ __forceinline__ float value(int sum, int, int, int) const { return __int_as_float(sum); }
  };
};

/// One scale per column and quantisation group. kIsOneGroup: a single group spans all of k.
template <bool kIsOneGroup>
struct GroupScaling : UnscaledSums {
  static constexpr bool kScalesGroups = !kIsOneGroup;
  static constexpr bool kScalesEnd = kIsOneGroup;

  template <class Scales>
  static __device__ __forceinline__ void add(float (&sums)[2][4], const float (&products)[2][4], const Scales& scales) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] += scales.of[i / 2] * products[i / 4][i % 4];
  }
  /// Does the same for one of the two tiles of 16 columns, of products that wgmma wrote. `asm volatile` keeps the
  /// compiler from reading or moving products while wgmma is still writing them.
  static __device__ __forceinline__ void add_settled(float (&sums)[4], float (&products)[4], const float (&scales)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sums[i]) : "f"(products[i]), "f"(scales[i / 2]));
  }
};

}  // namespace cubit
