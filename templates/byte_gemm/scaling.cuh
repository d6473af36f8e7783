// Scaling roles for products of bytes: split-K merges unscaled sums, and the complete sums are scaled just before the
// epilogue. Interface of a scaling role: see gemm/scaling.cuh.
//
// Integer sums are exact, so their split-K slices may be added in any order.
#pragma once

#include "byte_gemm/arguments.h"
#include "byte_gemm/zero_points.cuh"
#include "core/types.cuh"
#include "gemm/scaling.cuh"

namespace cubit {

/// value = (sum · scale of the activations) · scale of the weights. `Zeros` (zero_points.cuh) corrects the sum first.
/// The corrected sum and both products are rounded to fp32. kTokenScales: each token has its own activation scale, else
/// one number serves all tokens. kChannelScales: each column has its own weight scale, else one serves all columns.
template <class Accumulator, bool kTokenScales, bool kChannelScales, class Zeros = NoZeroPoints>
struct ScaledSums : UnscaledSums {
  using Sum = Accumulator;

  class Values {
   public:
    /// The loads are not volatile, so without a gate the compiler removes the unused loads for up-projection columns.
    __device__ __forceinline__ Values(const GemmArguments& args, int row, int column)
        : zeros_(static_cast<const ByteGemmArguments&>(args), row, column) {
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
      return __fmul_rn(__fmul_rn(zeros_(sum, i), token_), channels_[i]);
    }

   private:
    typename Zeros::Values zeros_;
    float token_;
    float channels_[4];
  };

  template <int kBlocks>
  class Features {
   public:
    __device__ __forceinline__ Features(const PersistentGemmArguments& args, const int (&columns)[2])
        : zeros_(static_cast<const PersistentByteArguments&>(args), columns) {
      load(channels_[0], args.scales, kChannelScales ? columns[0] : 0);
      load(channels_[1], args.scales, kChannelScales ? columns[1] : 0);
    }
    /// Tokens beyond the last one get the last token's scale and zero point.
    __device__ __forceinline__ void load_tokens(const PersistentGemmArguments& args, int token) {
      const auto& all = static_cast<const PersistentByteArguments&>(args);
#pragma unroll
      for (int i = 0; i < kScales; ++i) {
        const int own = kTokenScales ? min(token + 8 * (i / 2) + 2 * (lane_index() % 4) + i % 2, args.m - 1) : 0;
        load(tokens_[i], all.activation_scales, own);
        zeros_.load_token(all, i, own);
      }
    }
    __device__ __forceinline__ float value(Sum sum, int row, int block, int i) const {
      const int token = kTokenScales ? 2 * block + i : 0;
      return __fmul_rn(__fmul_rn(zeros_.value(sum, row, token), tokens_[token]), channels_[row]);
    }

   private:
    static constexpr int kScales = kTokenScales ? 2 * kBlocks : 1;

    static __device__ __forceinline__ void load(float& scale, const void* scales, int i) {
      asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(scale) : "l"(static_cast<const float*>(scales) + i));
    }

    typename Zeros::template Features<kBlocks> zeros_;
    float channels_[2];
    float tokens_[kScales];
  };
};

/// ScaledSums with promoted accumulation: the products of each stage of 128 values along k have accumulators of their
/// own, and fp32 additions add these to the sums. In the persistent loop PromotedProduct does so instead of add().
template <bool kTokenScales, bool kChannelScales>
struct PromotedSums : ScaledSums<float, kTokenScales, kChannelScales> {
  static constexpr bool kScalesGroups = true;

  template <class Scales>
  static __device__ __forceinline__ void add(float (&sums)[2][4], const float (&products)[2][4], const Scales&) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] = __fadd_rn(sums[i / 4][i % 4], products[i / 4][i % 4]);
  }
};

}  // namespace cubit
