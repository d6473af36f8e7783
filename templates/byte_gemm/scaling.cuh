// Scaling roles for products of bytes: the accumulators are the sums that split-K merges, and the epilogue scales them.
// Interface of a scaling role: see gemm/scaling.cuh.
//
// Integer sums are exact, so that their split-K slices may be added in any order.
#pragma once

#include "byte_gemm/arguments.h"
#include "core/types.cuh"
#include "gemm/scaling.cuh"

namespace cubit {

/// Sums that are the output. A sum passes through the epilogue's floats as its bits.
struct IntegerSums : UnscaledSums {
  using Sum = int;

  struct Values {
    template <class Arguments>
    __device__ __forceinline__ Values(const Arguments&, int, int) {}
    __device__ __forceinline__ float operator()(int sum, int) const { return __int_as_float(sum); }
  };
};

/// value = (sum · scale of the activations) · scale of the weights, both products rounded to fp32. As the flags say, a
/// scale is one number, or one number for each token and for each channel (column).
template <class Accumulator, bool kTokenScales, bool kChannelScales>
struct ScaledSums : UnscaledSums {
  using Sum = Accumulator;

  class Values {
   public:
    /// The loads are not volatile: without a gate the compiler removes those of the up-projection columns.
    __device__ __forceinline__ Values(const GemmArguments& args, int row, int column) {
      const auto& own = static_cast<const ByteGemmArguments&>(args);
      token_ = static_cast<const float*>(own.activation_scales)[kTokenScales ? row : 0];
      const auto* const channels = static_cast<const float*>(own.scales);
      if constexpr (kChannelScales) {
        const float4 four = *reinterpret_cast<const float4*>(channels + column);
        channels_[0] = four.x;
        channels_[1] = four.y;
        channels_[2] = four.z;
        channels_[3] = four.w;
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) channels_[i] = channels[0];
      }
    }
    __device__ __forceinline__ float operator()(Sum sum, int i) const {
      return __fmul_rn(__fmul_rn(static_cast<float>(sum), token_), channels_[i]);
    }

   private:
    float token_;
    float channels_[4];
  };
};

}  // namespace cubit
