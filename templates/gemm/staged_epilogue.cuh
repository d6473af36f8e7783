// Epilogue of the persistent GEMM: turns accumulators into stored 16-bit output, through shared memory and TMA stores.
//
//   output = function(product + bias) + residual
//   gated:  output = function(gate + gate bias) · (up + up bias) + residual
//
// Each consumer warpgroup has two staging tiles of kTokens tokens and its 64 outputs (32 if gated), swizzled as the
// output's tensor map expects. While a TMA store reads one tile, the warpgroup fills the other one. A store writes only
// what lies inside the output, so tail tiles need no other code. The stores and the copies of the next tile's stages
// overlap.
//
// Accumulators have features as rows, and the output has tokens as rows. A lane therefore has neighbouring outputs of
// one token only as far as neighbouring features are its rows (persistent_gemm_lanes.h). Otherwise lanes 4 apart, which
// have neighbouring features, exchange outputs first: one keeps the even tokens, the other the odd tokens.
//
// Interface of an epilogue: kGated; begin(args, tile), which loads what a tile's features have in common, and
// store(...), which finishes a range of tokens. The scaling role (scaling.cuh) turns an accumulator into the
// product's value.
#pragma once

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/activation_functions.cuh"
#include "gemm/cluster_exchange.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "gemm/scaling.cuh"
#include "kernels/persistent_gemm_arguments.h"

namespace cubit {

/// kStagingAt: offset of a byte of an output in a staging tile. `Weights` is the weight operand, `Scaling` the scaling
/// role.
template <class Element, class Weights, class Scaling, class Function, int (*kStagingAt)(int, int), int kTokens,
          bool kIsGated, bool kBias, bool kResidual>
class StagedEpilogue {
  using Features = typename Weights::Features;
  using Tile = typename Weights::Tile;
  static constexpr int kRows = kIsGated ? 1 : 2;            ///< outputs of a lane's two features
  static constexpr int kRuns = Features::kRuns;             ///< stores per block of 8 tokens
  static constexpr int kRun = 2 * kRows / Features::kRuns;  ///< neighbouring outputs of one store
  static constexpr int kOutputs = persistent_lanes::warpgroup_outputs(kIsGated);

 public:
  static constexpr bool kGated = kIsGated;
  static constexpr uint32 kStagingBytes = 2 * kTokens * kOutputs;

  /// `staging`: address of this warpgroup's two staging tiles.
  __device__ __forceinline__ StagedEpilogue(const PersistentGemmArguments& args, const TensorMap& map, uint32 staging)
      : args_(args), map_(map), staging_(staging), outputs_(kIsGated ? args.n / 2 : args.n) {}

  /// Stores the first `count` tokens of `sums`, which are the output's tokens from `token` on. `count` is a multiple of
  /// kTokens.
  template <int kBlocks, class Sum>
  __device__ __forceinline__ void store(const Sum (&sums)[kBlocks][4], Tile tile, int token, int count,
                                        const Scaling& scaling) {
    static_assert(8 * kBlocks % kTokens == 0);
    float bias[2] = {};
    load_bias(tile, bias);
    const int lane = lane_index();
    const int warp = warp_index();
    const int first = tile.first + warp / 4 * kOutputs;  // of the warpgroup
    const bool starts_store = thread_index() % 128 == 0;
#pragma unroll
    for (int part = 0; part < 8 * kBlocks / kTokens; ++part) {
      if (part * kTokens >= count) break;
      const uint32 buffer = staging_ + (parity_ ? kStagingBytes : 0);
      if (starts_store) wait_stores_read<1>();
      sync_threads<128>(kWarpgroupBarriers + warp / 4);
#pragma unroll
      for (int block = 0; block < kTokens / 8; ++block) {
        const int index = part * (kTokens / 8) + block;
        float runs[kRuns][kRun];
        make_runs(runs, sums[index], bias, scaling, token + 8 * index);
#pragma unroll
        for (int i = 0; i < kRuns; ++i) {
          const persistent_lanes::Place at = persistent_lanes::stored_outputs<Features, kIsGated>(lane, warp, block, i);
          if constexpr (kResidual) add_residual(runs[i], token + part * kTokens + at.row, first + at.byte / 2);
          uint32 words[kRun / 2];
#pragma unroll
          for (int j = 0; j < kRun / 2; ++j) words[j] = Pair<Element>::pack(runs[i][2 * j], runs[i][2 * j + 1]);
          store_shared(buffer + kStagingAt(at.row, at.byte), words);  // access: stores of outputs
        }
      }
      fence_async_proxy();
      sync_threads<128>(kWarpgroupBarriers + warp / 4);
      if (starts_store) {
        const int row = token + part * kTokens;
        if (first < outputs_ && row < args_.m) store_box(map_, first, row, buffer);
        commit_stores();
      }
      parity_ = !parity_;
    }
  }

  /// The block may exit only when its stores are complete.
  __device__ __forceinline__ void finish() const {
    if (thread_index() % 128 == 0) wait_stores();
  }

 private:
  __device__ __forceinline__ void load_bias(Tile tile, float (&bias)[2]) const {
    if constexpr (kBias) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int column = min(tile.column(args_.n, Features::feature(lane_index(), warp_index(), row)), args_.n - 1);
        uint16 bits;
        asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(bits) : "l"(static_cast<const uint16*>(args_.bias) + column));
        bias[row] = Pair<Element>::low(bits);
      }
    }
  }

  /// Applies bias, function and gate to a block of 8 tokens, and gathers neighbouring outputs.
  template <class Sum>
  static __device__ __forceinline__ void make_runs(float (&runs)[kRuns][kRun], const Sum (&sums)[4],
                                                   const float (&bias)[2], const Scaling& scaling, int token) {
    float outputs[kRows][2];  // [feature][token]
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int own_token = token + 2 * (lane_index() % 4) + i;
      const float first = scaling.value(sums[i], 0, own_token) + bias[0];
      const float second = scaling.value(sums[2 + i], 1, own_token) + bias[1];
      if constexpr (kIsGated) {
        outputs[0][i] = Function::apply(first) * second;
      } else {
        outputs[0][i] = Function::apply(first);
        outputs[kRows - 1][i] = Function::apply(second);
      }
    }
    if constexpr (!Features::kExchanges) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        runs[i][0] = outputs[0][i];
        runs[i][1] = outputs[1][i];
      }
    } else {
      // The lane of an even feature keeps the even token of both lanes.
      const uint32 is_odd = lane_index() / 4 % 2;
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const float other = __shfl_xor_sync(kFullWarp, select_value(is_odd, outputs[row][0], outputs[row][1]), 4);
        const float own = select_value(is_odd, outputs[row][1], outputs[row][0]);
        float* const pair = kRuns == 1 ? &runs[0][2 * row] : runs[row];
        pair[0] = select_value(is_odd, other, own);
        pair[1] = select_value(is_odd, own, other);
      }
    }
  }

  /// Uses ordinary loads instead of read-only ones, because the residual may be the output itself.
  __device__ __forceinline__ void add_residual(float (&run)[kRun], int token, int output) const {
    if (token >= args_.m || output >= outputs_) return;
    const auto* src = reinterpret_cast<const uint32*>(static_cast<const char*>(args_.residual) +
                                                      token * args_.residual_stride + 2 * static_cast<int64>(output));
#pragma unroll
    for (int i = 0; i < kRun / 2; ++i) {
      run[2 * i] += Pair<Element>::low(src[i]);
      run[2 * i + 1] += Pair<Element>::high(src[i]);
    }
  }

  const PersistentGemmArguments& args_;
  const TensorMap& map_;
  uint32 staging_;
  int outputs_;
  bool parity_ = false;
};

}  // namespace cubit
