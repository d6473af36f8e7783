// Zero points of activations, in the scaling roles of bytes. A sum of products of (activation - zero point) and weights
// is the sum of the products minus zero point · sum of the weights. The difference is exact in 64 bits.
//
// Interface of zero points:
//   Values(args, row, column)        what the sums of a row need, from `column` of the weights on. Its operator()(sum,
//                                    i) returns the corrected sum of column `column` + i, i < 4, rounded to fp32
//   Features<blocks>(args, columns)  the same in the persistent loop, for a lane's two features and 2 · blocks tokens.
//                                    load_token(args, i, token) loads what the lane's token i needs. value(sum, row,
//                                    i) returns the corrected sum. With one zero point for all tokens, i is 0
#pragma once

#include "byte_gemm/arguments.h"
#include "core/types.cuh"

namespace cubit {

/// Activations without zero points.
struct NoZeroPoints {
  struct Values {
    __device__ __forceinline__ Values(const ByteTensors&, int, int) {}
    template <class Sum>
    __device__ __forceinline__ float operator()(Sum sum, int) const {
      return static_cast<float>(sum);
    }
  };
  template <int kBlocks>
  struct Features {
    __device__ __forceinline__ Features(const ByteTensors&, const int (&)[2]) {}
    __device__ __forceinline__ void load_token(const ByteTensors&, int, int) {}
    template <class Sum>
    __device__ __forceinline__ float value(Sum sum, int, int) const {
      return static_cast<float>(sum);
    }
  };
};

/// Activations of signed bytes whose zero points are one number, or one number for each token.
template <bool kTokens>
struct ZeroPoints {
  class Values {
   public:
    __device__ __forceinline__ Values(const ByteTensors& args, int row, int column)
        : zero_(args.activation_zeros[kTokens ? row : 0]),
          weights_(*reinterpret_cast<const int4*>(args.weight_sums + column)) {}
    __device__ __forceinline__ float operator()(int sum, int i) const {
      return without_zero(sum, zero_, i == 0 ? weights_.x : i == 1 ? weights_.y : i == 2 ? weights_.z : weights_.w);
    }

   private:
    int zero_;
    int4 weights_;
  };

  /// A lane has two features, and 2 · kBlocks tokens.
  template <int kBlocks>
  class Features {
   public:
    __device__ __forceinline__ Features(const ByteTensors& args, const int (&columns)[2])
        : weights_{args.weight_sums[columns[0]], args.weight_sums[columns[1]]} {}
    /// Loads the zero point of the lane's token `i`, which is activation_zeros[token].
    __device__ __forceinline__ void load_token(const ByteTensors& args, int i, int token) {
      zeros_[i] = args.activation_zeros[token];
    }
    __device__ __forceinline__ float value(int sum, int row, int i) const {
      return without_zero(sum, zeros_[i], weights_[row]);
    }

   private:
    int weights_[2];
    int zeros_[kTokens ? 2 * kBlocks : 1];
  };

 private:
  static __device__ __forceinline__ float without_zero(int sum, int zero, int weights) {
    return __ll2float_rn(sum - static_cast<int64>(zero) * weights);
  }
};

}  // namespace cubit
