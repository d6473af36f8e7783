// Weight-only 4-bit matrix multiplication, on the words of a checkpoint as they are.
// Family sm80: cp.async, ldmatrix, mma.sync; sm_80 and later.
//
//   output[m, n] = epilogue(sum over k of activations[m, k] · scale[g, n] · (q[k, n] - zero[g, n])),  g = k / group
//
// One block per (256 columns of the weights, kTileM rows of activations, split of k). Weights are the A operand, so that few
// rows waste little of a product: the columns are its M, the rows its N.
//
//                     kTileM rows: 8 per product
//                   +-----------+
//     256 columns:  |  warp 0   |   64 columns, 4 tiles of 16: the halves' columns stand in rows 0-7 and 8-15 of a tile
//                   |  warp 1   |
//                   |  warp 2   |   Where kTileM > 32, four more warps take the same columns and the other rows.
//                   |  warp 3   |   Gated: the second half of a warp's columns is args.n / 2 further on.
//                   +-----------+
//
// A stage is 128 k's. Within a group products of nibbles accumulate in fp32; one more product per step, with ones for the
// weights, sums the activations. At the group's end  sum += scale · (product - zero · sum of activations).
//
// Shared memory: stages { words | activations | scales of the stage's groups | their zeros }, then, where one group is all
// of k, its scales and zeros, then one word for last_block.
//
// Who waits for whom: a thread's copies are complete after wait_copies, other threads' after the __syncthreads that follows;
// the same __syncthreads shows that every warp has finished reading the stage that is filled next. Splits: every block
// stores its accumulators; the block that is last at its tile's counter adds all of them in order of their split, so the
// result does not depend on who was last, and sets the counter back to zero.
//
// With activation order a stage has no factors, and no group ends: see w4_ordered.cuh.
//
// What does not exist (columns from n on, rows from m on, k's from k on) is not read: it arrives as zeros.
//
// Roles that the plan chooses: plan::Format, see w4_words_by_k.cuh; plan::Epilogue, see gemm_epilogue.cuh.
// Which lane touches which byte: w4a16_gemm_lanes.h, shared with the plan's proofs.
//
// PTX ISA: "Asynchronous copy: cp.async", "ldmatrix", "Matrix fragments for mma.m16n8k16 with floating point type", "atom",
// "Memory Consistency Model".
#include "plan.cuh"

#include "copies.cuh"
#include "mma.cuh"
#include "split_kv.cuh"
#include "types.cuh"
#include "w4_ordered.cuh"
#include "w4_values.cuh"
#include "w4a16_gemm_arguments.h"
#include "w4a16_gemm_lanes.h"

namespace cubit {

using Format = plan::Format;
using plan::Element;

constexpr int kThreads = plan::kWarps * kWarpSize;
constexpr int kRowWarps = plan::kWarps / gemm_lanes::kColumnWarps;
constexpr int kRowTiles = plan::kTileM / 8 / kRowWarps;  // of 8 rows, per warp
constexpr bool kWholeK = plan::kGroup == 0;              // one group
constexpr bool kStagedFactors = !kWholeK && !plan::kActivationOrder;
constexpr int kStageGroups = !kStagedFactors ? 1 : gemm_lanes::kStageK / plan::kGroup;
constexpr int kGroupSteps = gemm_lanes::kStageK / gemm_lanes::kStepK / kStageGroups;
// With more rows, the next group's loads beside this one's sums would spill.
constexpr int kUnrolledGroups = kRowTiles == 1 ? kStageGroups : 1;
static_assert(kRowWarps * gemm_lanes::kColumnWarps == plan::kWarps && kRowTiles * kRowWarps * 8 == plan::kTileM);

/// Accumulators of a warp, [rows / 8][tile][element of the product's].
using Sums = float[kRowTiles][4][4];

/// The column of the weights at a place of the block's 256, or -1 where there is none.
__device__ __forceinline__ int weight_column(const W4a16GemmArguments& args, int place) {
  const int block = static_cast<int>(blockIdx.y) * gemm_lanes::kBlockColumns;
  if constexpr (plan::Epilogue::kGated) {
    const int half = args.n / 2;
    const int column = block / 2 + place / 64 * 32 + place % 32;
    return column < half ? column + place / 32 % 2 * half : -1;
  } else {
    return block + place < args.n ? block + place : -1;
  }
}

/// Starts the copies of stages: every thread takes pieces of the same columns in each.
class Fetcher {
 public:
  __device__ __forceinline__ Fetcher(const W4a16GemmArguments& args, int first_row) : args_(args) {
    const int thread = static_cast<int>(thread_index());
    const int column = weight_column(args, thread % kWordPieces * kPieceColumns);
    has_words_ = column >= 0;
    word_stride_ = Format::row_bytes(args.n);
    words_ = static_cast<const char*>(args.qweight) + (thread / kWordPieces) * word_stride_ +
             (has_words_ ? Format::word_byte(column) : 0);
    rows_ = args.m - first_row;
    activations_ = static_cast<const char*>(args.activations) + first_row * args.activation_stride;
  }

  __device__ __forceinline__ void fetch(uint32 stage, int index) const {
    fetch_words(stage, index * gemm_lanes::kStageK / Format::kWordK);
    fetch_activations(stage + plan::kActivationsAt, index * gemm_lanes::kStageK);
    if constexpr (kStagedFactors) {
      fetch_factors(stage + plan::kScalesAt, index * kStageGroups, kStageGroups, args_.k / plan::kGroup);
    }
  }

  /// Scales and zeros of `count` groups from `first` on: a warp takes one group's.
  __device__ __forceinline__ void fetch_factors(uint32 scales, int first, int count, int groups) const {
    const int warp = warp_index();
    if (warp >= count) return;
    const int group = first + warp;
    const int column = weight_column(args_, 8 * lane_index());
    const bool valid = column >= 0 && group < groups;
    const int64 at = group * static_cast<int64>(args_.n) + (valid ? column : 0);
    const char* const scale = static_cast<const char*>(args_.scales) + 2 * at;
    const uint32 row = scales + warp * gemm_lanes::kScaleBytes;
    copy_async<16>(row + 16 * lane_index(), scale, valid);  // access: cp.async of scales
    if constexpr (plan::kStoredZeros) {
      const char* const zero = static_cast<const char*>(args_.qzeros) + at / 2;
      const uint32 zeros = scales + plan::kZerosAt - plan::kScalesAt + warp * gemm_lanes::kZeroBytes;
      copy_async<4>(zeros + 4 * lane_index(), zero, valid);  // access: cp.async of zeros
    }
  }

 private:
  static constexpr int kWordPieces = Format::kWordRowBytes / plan::kCopyBytes;  // of a row
  static constexpr int kPieceColumns = gemm_lanes::kBlockColumns / kWordPieces;
  static constexpr int kActivationPieces = gemm_lanes::kActivationBytes / 16;
  static_assert(kThreads % kWordPieces == 0 && plan::kTileM * kActivationPieces % kThreads == 0);

  __device__ __forceinline__ void fetch_words(uint32 stage, int first) const {
    const int thread = static_cast<int>(thread_index());
    const int rows = args_.k / Format::kWordK - first;
    const char* src = words_ + first * word_stride_;
#pragma unroll(kUnrolledCopies)
    for (int i = 0; i < Format::kWordRows * kWordPieces / kThreads; ++i) {
      const gemm_lanes::Place at = gemm_lanes::copied_piece(i, thread, kThreads, kWordPieces, plan::kCopyBytes);
      const bool valid = has_words_ && at.row < rows;
      copy_async<plan::kCopyBytes>(stage + plan::word_stage(at.row, at.byte), src, valid);  // access: cp.async of words
      src += kThreads / kWordPieces * word_stride_;
    }
  }

  __device__ __forceinline__ void fetch_activations(uint32 stage, int first) const {
    const int thread = static_cast<int>(thread_index());
#pragma unroll
    for (int i = 0; i < plan::kTileM * kActivationPieces / kThreads; ++i) {
      const gemm_lanes::Place at = gemm_lanes::copied_piece(i, thread, kThreads, kActivationPieces, 16);
      const bool valid = at.row < rows_ && first + at.byte / 2 < args_.k;
      const char* const src = activations_ + at.row * args_.activation_stride + 2 * static_cast<int64>(first) + at.byte;
      const uint32 dst = stage + plan::activation_stage(at.row, at.byte);
      copy_async<16>(dst, src, valid);  // access: cp.async of activations
    }
  }

  static constexpr int kUnrolledCopies = 8;

  const W4a16GemmArguments& args_;
  const char* words_;  // the thread's first piece of the first stage
  const char* activations_;
  int64 word_stride_;
  int rows_;  // from the block's first on
  bool has_words_;
};

/// A warp's place in its block.
struct WarpPlace {
  int columns;  // which 64 of them
  int rows;     // its first tile of 8
};

template <int kProduct, int kTile>
__device__ __forceinline__ void multiply_tile(const Format::Weights& weights, const uint32 (&b)[kRowTiles][4],
                                              Sums& products) {
  uint32 a[4];
  Format::operand<kProduct, kTile>(a, weights);
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t)
    mma_m16n8k16<Element>(products[t][kTile], a[0], a[1], a[2], a[3], b[t][2 * kProduct], b[t][2 * kProduct + 1]);
}

template <int kProduct>
__device__ __forceinline__ void multiply_tiles(const Format::Weights& weights, const uint32 (&b)[kRowTiles][4],
                                               Sums& products, float (&activations)[kRowTiles][4]) {
  constexpr uint32 kOne = W4Values<Element>::kOne;
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t)
    mma_m16n8k16<Element>(activations[t], kOne, kOne, kOne, kOne, b[t][2 * kProduct], b[t][2 * kProduct + 1]);
  multiply_tile<kProduct, 0>(weights, b, products);
  multiply_tile<kProduct, 1>(weights, b, products);
  multiply_tile<kProduct, 2>(weights, b, products);
  multiply_tile<kProduct, 3>(weights, b, products);
}

/// Products of a group, and the sums of its activations.
struct GroupSums {
  Sums products = {};
  float activations[kRowTiles][4] = {};

  /// Adds the steps that a stage has of group `group` of its groups.
  __device__ __forceinline__ void add(uint32 stage, WarpPlace warp, int group) {
#pragma unroll
    for (int i = 0; i < kGroupSteps; ++i) {
      const int step = group * kGroupSteps + i;
      Format::Weights weights;
      Format::load_weights(weights, stage, warp.columns, step);
      uint32 b[kRowTiles][4];
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t)
        Format::load_activations(b[t], stage + plan::kActivationsAt, warp.rows + t, step);
      multiply_tiles<0>(weights, b, products, activations);
      multiply_tiles<1>(weights, b, products, activations);
    }
  }

  /// sums += scale · (product - zero · sum of activations), with the factors of row `group` of those in shared memory.
  __device__ __forceinline__ void finish(Sums& sums, uint32 scales, WarpPlace warp, int group) const {
    GroupFactors factors;
    Format::load_factors(factors, scales, scales + plan::kZerosAt - plan::kScalesAt, warp.columns, group);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float shifted = products[t][tile][i] + factors.minus_zero[i / 2][tile] * activations[t][i % 2];
          sums[t][tile][i] += factors.scale[i / 2][tile] * shifted;
        }
      }
    }
  }
};

/// With activation order: adds the products of stage `index`, whose weights become numbers first. A template, because formats by n have
/// no such words.
template <class WordsByK>
__device__ __forceinline__ void add_ordered(const W4a16GemmArguments& args, uint32 stage, WarpPlace warp, int index,
                                            Sums& sums) {
  const int lane = lane_index();
  int columns[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)  // of columns that do not exist, the first one's factors
    columns[half] = max(0, weight_column(args, 64 * warp.columns + 32 * half + gemm_lanes::first_column(lane)));
#pragma unroll 1
  for (int step = 0; step < gemm_lanes::kStageK / gemm_lanes::kStepK; ++step) {
    typename WordsByK::Weights weights;
    WordsByK::load_weights(weights, stage, warp.columns, step);
    int groups[8];
    const int row = index * WordsByK::kWordRows + gemm_lanes::words_by_k(lane, 0, 0, step).row;
    load_groups(groups, args, row, args.k / plan::kGroup);
    uint32 a[2][2][4][4];  // [half][term][tile][pair]
#pragma unroll
    for (int half = 0; half < 2; ++half)
      dequantise<Element, plan::kStoredZeros, plan::kZeroOffset>(a[half], weights.words[half], args, groups,
                                                                 columns[half]);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      uint32 b[4];
      WordsByK::load_activations(b, stage + plan::kActivationsAt, warp.rows + t, step);
#pragma unroll
      for (int item = 0; item < 16; ++item) {  // of each tile two products of two terms
        const int tile = item / 4;
        const int j = item % 2 * 2;
        const auto& low = a[0][item / 2 % 2][tile];
        const auto& high = a[1][item / 2 % 2][tile];
        mma_m16n8k16<Element>(sums[t][tile], low[j], high[j], low[j + 1], high[j + 1], b[j], b[j + 1]);
      }
    }
  }
}

/// The block's part of the stages, [first, last).
__device__ __forceinline__ void walk(const W4a16GemmArguments& args, const Fetcher& fetcher, uint32 stages,
                                     WarpPlace warp, int first, int last, Sums& sums) {
  const uint32 whole_scales = stages + plan::kStages * plan::kStageBytes;
  if constexpr (kWholeK) fetcher.fetch_factors(whole_scales, 0, 1, 1);
  GroupSums whole;
  // One loop fills and drains the ring: stage `ahead` is fetched while stage `ahead - (kStages - 1)` is used.
  int fill = 0;
#pragma unroll 1
  for (int ahead = first; ahead < last + plan::kStages - 1; ++ahead) {
    wait_copies<plan::kStages - 2>();
    __syncthreads();
    if (ahead < last) fetcher.fetch(stages + fill * plan::kStageBytes, ahead);
    commit_copies();
    fill = fill + 1 == plan::kStages ? 0 : fill + 1;  // the stage that is filled next is the one in use now
    if (ahead - (plan::kStages - 1) < first) continue;
    const uint32 stage = stages + fill * plan::kStageBytes;
    if constexpr (plan::kActivationOrder) {
      add_ordered<Format>(args, stage, warp, ahead - (plan::kStages - 1), sums);
    } else if constexpr (kWholeK) {
      whole.add(stage, warp, 0);
    } else {
#pragma unroll(kUnrolledGroups)
      for (int group = 0; group < kStageGroups; ++group) {
        GroupSums of_group;
        of_group.add(stage, warp, group);
        of_group.finish(sums, stage + plan::kScalesAt, warp, group);
      }
    }
  }
  wait_copies<0>();
  if constexpr (kWholeK) whole.finish(sums, whole_scales, warp, 0);
}

/// True where this block shall store the output: `sums` are then those of all splits, added in order.
__device__ __forceinline__ bool merge_splits(const W4a16GemmArguments& args, Sums& sums, uint32* arrived) {
  constexpr int kItems = 4 * kRowTiles;
  constexpr int64 kPartBytes = 16 * kItems * kThreads;
  const int64 tile = blockIdx.y * static_cast<int64>(gridDim.x) + blockIdx.x;
  char* const parts = reinterpret_cast<char*>(args.partial) + tile * args.splits * kPartBytes + 16 * thread_index();
  float4* const own = reinterpret_cast<float4*>(parts + blockIdx.z * kPartBytes);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const float(&sum)[4] = sums[item / 4][item % 4];
    own[item * kThreads] = make_float4(sum[0], sum[1], sum[2], sum[3]);
  }
  if (!last_block(args.counters + tile, args.splits, arrived, [] { __syncthreads(); })) return false;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[item / 4][item % 4][i] = 0.f;
  }
#pragma unroll 1
  for (int split = 0; split < args.splits; ++split) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const float4 part = load_partial4(parts + split * kPartBytes + 16 * kThreads * item);
      float(&sum)[4] = sums[item / 4][item % 4];
      sum[0] += part.x;
      sum[1] += part.y;
      sum[2] += part.z;
      sum[3] += part.w;
    }
  }
  return true;
}

/// Four neighbouring columns of one row per store, or gated, of the gate and the columns that it is for.
__device__ __forceinline__ void store_output(const W4a16GemmArguments& args, WarpPlace warp, int first_row,
                                             Sums& sums) {
  constexpr int kHalves = plan::Epilogue::kGated ? 1 : 2;
  const int lane = lane_index();
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
    Format::arrange(sums[t]);
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) {
      const int row = first_row + 8 * (warp.rows + t) + 2 * (lane % 4) + i % 2;
      const int column = weight_column(args, 64 * warp.columns + 32 * (i / 2) + gemm_lanes::first_column(lane));
      if (row >= args.m || column < 0) continue;
      float values[4];
      float ups[4];
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        values[tile] = sums[t][tile][i];
        ups[tile] = sums[t][tile][2 + i % 2];
      }
      plan::Epilogue::store(args, row, column, values, ups);
    }
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kWarps * 32, plan::kBlocksPerSm)
    w4a16_gemm(const __grid_constant__ cubit::W4a16GemmArguments args) {
  using namespace cubit;
  extern __shared__ __align__(128) unsigned char shared[];
  const int first_row = static_cast<int>(blockIdx.x) * plan::kTileM;
  const WarpPlace warp = {warp_index() % gemm_lanes::kColumnWarps, warp_index() / gemm_lanes::kColumnWarps * kRowTiles};
  const int split = static_cast<int>(blockIdx.z);
  const Share share = share_of(args.stages, args.splits, split);
  Sums sums = {};
  walk(args, Fetcher(args, first_row), settled(shared_address(shared)), warp, share.first, share.last, sums);
  uint32* const arrived = reinterpret_cast<uint32*>(shared + plan::kArrivedAt);
  if (args.splits > 1 && !merge_splits(args, sums, arrived)) return;
  store_output(args, warp, first_row, sums);
}
