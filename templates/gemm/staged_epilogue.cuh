// Epilogue of the persistent GEMM: turns accumulators into stored output, through shared memory and TMA stores.
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
// A row of a staging tile has at most 128 bytes in one box. Outputs of 32 bits have two boxes, one behind the other.
//
// Interface of an epilogue: kGated, kStagingBytes, and store(...), which finishes a range of tokens. The scaling role
// (scaling.cuh) turns an accumulator into the product's value.
//
// Interface of an output type:
//   kBytes                   of an output
//   Type(args)               what all outputs need
//   store(address, values)   stores neighbouring outputs to a staging tile
//   kMayBeUnaligned          whether rows of the output may begin where no tensor map's rows do. The kernel's argument
//                            then has the output, unless the tensor map serves
//   kHasSecond               whether each output is stored in another form, too. store_second(token, output, pairs)
//                            then stores that form of eight neighbouring outputs of 16 bits
#pragma once

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/activation_functions.cuh"
#include "gemm/cluster_exchange.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "gemm/scaling.cuh"
#include "kernels/gemm/persistent_gemm_arguments.h"

namespace cubit {

/// Outputs of 16 bits.
template <class Element>
struct PackedHalves {
  static constexpr int kBytes = 2;
  static constexpr bool kMayBeUnaligned = false;
  static constexpr bool kHasSecond = false;

  __device__ __forceinline__ explicit PackedHalves(const PersistentGemmArguments&) {}
  template <int kRun>
  __device__ __forceinline__ void store(uint32 address, const float (&values)[kRun]) const {
    uint32 words[kRun / 2];
#pragma unroll
    for (int i = 0; i < kRun / 2; ++i) words[i] = Pair<Element>::pack(values[2 * i], values[2 * i + 1]);
    store_shared(address, words);
  }
};

/// Integer sums, whose bits are in the floats: see IntegerSums.
struct PackedIntegers {
  static constexpr int kBytes = 4;
  static constexpr bool kMayBeUnaligned = false;
  static constexpr bool kHasSecond = false;

  __device__ __forceinline__ explicit PackedIntegers(const PersistentGemmArguments&) {}
  __device__ __forceinline__ void store(uint32 address, const float (&values)[2]) const {
    const uint32 words[2] = {__float_as_uint(values[0]), __float_as_uint(values[1])};
    store_shared(address, words);
  }
};

/// kStagingAt: offset of a byte of an output in a staging tile. `Weights` is the weight operand, `Scaling` the scaling
/// role, `Output` the output type. `Element` is the type of bias and residual.
template <class Element, class Weights, class Scaling, class Function, class Output, int (*kStagingAt)(int, int),
          int kTokens, bool kIsGated, bool kBias, bool kResidual>
class StagedEpilogue {
  using Features = typename Weights::Features;
  using Tile = typename Weights::Tile;
  static constexpr int kRows = kIsGated ? 1 : 2;            ///< outputs of a lane's two features
  static constexpr int kRuns = Features::kRuns;             ///< stores per block of 8 tokens
  static constexpr int kRun = 2 * kRows / Features::kRuns;  ///< neighbouring outputs of one store
  static constexpr int kOutputs = persistent_lanes::warpgroup_outputs(kIsGated);
  static constexpr int kRowBytes = kOutputs * Output::kBytes;
  static constexpr int kBoxBytes = kRowBytes < 128 ? kRowBytes : 128;
  using Values = typename Scaling::template Features<kTokens / 8>;

 public:
  static constexpr bool kGated = kIsGated;
  static constexpr uint32 kStagingBytes = kTokens * kRowBytes;

  /// `staging`: address of this warpgroup's two staging tiles.
  __device__ __forceinline__ StagedEpilogue(const PersistentGemmArguments& args, const TensorMap& map, uint32 staging)
      : args_(args), map_(map), staging_(staging), outputs_(kIsGated ? args.n / 2 : args.n) {}

  /// Stores the first `count` tokens of `sums`, which are the output's tokens from `token` on. `count` is a multiple of
  /// kTokens.
  template <int kBlocks, class Sum>
  __device__ __forceinline__ void store(const Sum (&sums)[kBlocks][4], Tile tile, int token, int count) {
    static_assert(8 * kBlocks % kTokens == 0);
    int columns[2];
    find_columns(tile, columns);
    float bias[2] = {};
    load_bias(columns, bias);
    Values scales(args_, columns);
    const Output output(args_);
    const int lane = lane_index();
    const int warp = warp_index();
    const int first = tile.first + warp / 4 * kOutputs;  // of the warpgroup
    const bool starts_store = thread_index() % 128 == 0;
#pragma unroll
    for (int part = 0; part < 8 * kBlocks / kTokens; ++part) {
      if (part * kTokens >= count) break;
      scales.load_tokens(args_, token + part * kTokens);
      const uint32 buffer = staging_ + (parity_ ? kStagingBytes : 0);
      if (starts_store) wait_stores_read<1>();
      sync_threads<128>(kWarpgroupBarriers + warp / 4);
#pragma unroll
      for (int block = 0; block < kTokens / 8; ++block) {
        const int index = part * (kTokens / 8) + block;
        float runs[kRuns][kRun];
        make_runs(runs, sums[index], bias, scales, block);
#pragma unroll
        for (int i = 0; i < kRuns; ++i) {
          const persistent_lanes::Place at =
              persistent_lanes::stored_outputs<Features, kIsGated, Output::kBytes>(lane, warp, block, i);
          if constexpr (kResidual)
            add_residual(runs[i], token + part * kTokens + at.row, first + at.byte / Output::kBytes);
          output.store(buffer + kStagingAt(at.row, at.byte), runs[i]);  // access: stores of outputs
        }
      }
      fence_async_proxy();
      sync_threads<128>(kWarpgroupBarriers + warp / 4);
      store_tile(first, token + part * kTokens, buffer, starts_store);
      if constexpr (Output::kHasSecond) store_seconds(output, first, token + part * kTokens, buffer);
      parity_ = !parity_;
    }
  }

  /// The block may exit only when its stores are complete.
  __device__ __forceinline__ void finish() const {
    if (thread_index() % 128 == 0) wait_stores();
  }

 private:
  /// Columns of the weights of the lane's two features; the last column instead of columns that do not exist.
  __device__ __forceinline__ void find_columns(Tile tile, int (&columns)[2]) const {
#pragma unroll
    for (int row = 0; row < 2; ++row)
      columns[row] = min(tile.column(args_.n, Features::feature(lane_index(), warp_index(), row)), args_.n - 1);
  }

  __device__ __forceinline__ void load_bias(const int (&columns)[2], float (&bias)[2]) const {
    if constexpr (kBias) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        uint16 bits;
        asm volatile("ld.global.nc.b16 %0, [%1];"
                     : "=h"(bits)
                     : "l"(static_cast<const uint16*>(args_.bias) + columns[row]));
        bias[row] = Pair<Element>::low(bits);
      }
    }
  }

  /// Stores a staging tile, whose first output is `first` of token `row`.
  __device__ __forceinline__ void store_tile(int first, int row, uint32 buffer, bool starts_store) const {
    if constexpr (Output::kMayBeUnaligned) {
      if (args_.unmapped_output != nullptr) {
        copy_rows(first, row, buffer);
        return;
      }
    }
    if (!starts_store) return;
    store_boxes(first, row, buffer);
    commit_stores();
  }

  __device__ __forceinline__ void store_boxes(int first, int row, uint32 buffer) const {
    constexpr int kBoxOutputs = kBoxBytes / Output::kBytes;
    if (row >= args_.m) return;
#pragma unroll
    for (int box = 0; box < kRowBytes / kBoxBytes; ++box) {
      const int output = first + box * kBoxOutputs;
      if (output < outputs_) store_box(map_, output, row, buffer + box * kTokens * kBoxBytes);
    }
  }

  /// Stores the second form of the outputs of a staging tile. All threads of the warpgroup call the function. No thread
  /// writes the tile again before all have passed a barrier.
  __device__ __forceinline__ void store_seconds(const Output& output, int first, int row, uint32 buffer) const {
    constexpr int kVectors = kRowBytes / 16;
    for (int i = thread_index() % 128; i < kTokens * kVectors; i += 128) {
      const int token = row + i / kVectors;
      const int vector = i % kVectors;
      if (token >= args_.m || first + 8 * vector >= outputs_) continue;
      uint32 pairs[4];
      load_shared(pairs, buffer + kStagingAt(i / kVectors, 16 * vector));
      output.store_second(token, first + 8 * vector, pairs);
    }
  }

  /// Copies a staging tile by ordinary stores of 8 bytes, where no tensor map has the output's rows. All threads of the
  /// warpgroup call the function.
  __device__ __forceinline__ void copy_rows(int first, int row, uint32 buffer) const {
    constexpr int kVectors = kRowBytes / 8;
    for (int i = thread_index() % 128; i < kTokens * kVectors; i += 128) {
      const int token = row + i / kVectors;
      const int byte = 8 * (i % kVectors);
      if (token >= args_.m || first + byte / Output::kBytes >= outputs_) continue;
      uint32 words[2];
      load_shared(words, buffer + kStagingAt(i / kVectors, byte));
      char* const dst = static_cast<char*>(args_.unmapped_output) + token * args_.output_stride;
      store_global<8>(dst + first * Output::kBytes + byte, words[0], words[1]);
    }
  }

  /// Applies bias, function and gate to block `block` of 8 tokens of the part, and gathers neighbouring outputs.
  template <class Sum>
  static __device__ __forceinline__ void make_runs(float (&runs)[kRuns][kRun], const Sum (&sums)[4],
                                                   const float (&bias)[2], const Values& scales, int block) {
    float outputs[kRows][2];  // [feature][token]
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float first = scales.value(sums[i], 0, block, i);
      float second = scales.value(sums[2 + i], 1, block, i);
      if constexpr (kBias) {
        first += bias[0];
        second += bias[1];
      }
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
