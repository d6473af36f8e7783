// Weight-only 4-bit and 8-bit matrix multiplication, on the words of a checkpoint as they are.
// Family sm80: cp.async, ldmatrix, mma.sync; sm_80 and later. And sm75: the same with loads and stores instead of
// cp.async (stage_copies_registers.cuh), and two m16n8k8 for each m16n8k16 where there is none (mma.cuh); fp16 alone.
//
//   output[m, n] = epilogue(sum over k of activations[m, k] · scale[g, n] · (q[k, n] - zero[g, n])),  g = k / group
//
// One block per (256 columns of the weights, kTileM rows of activations, part of k), or per even share of all of them:
// see split_k.cuh. Where the plan asks for 64 or 32 columns a block has all of k, and its warps are teams of one: each
// has all of the columns, a part of k and a ring of its own, meets no other in the loop, and their sums meet in shared
// memory: see intra_block_split_k.cuh. Weights are the A operand, so that few rows waste little of a product: the columns
// are its M, the rows its N.
//
//                     kTileM rows: 8 per product
//                   +-----------+
//     256 columns:  |  warp 0   |   all rows of kWarpStrips strips of 32 columns, each two tiles of 16; a lane has four
//                   |    …      |   columns of a strip, and two rows of 8
//                   |  last     |   Gated: the second 128 columns are args.n / 2 further on than the first.
//                   +-----------+
//
// A stage is 128 k's. An operand is a nibble, or a byte, less its zero, which is exact; within a group products
// accumulate in fp32, and at its end  sum += scale · product.
//
// Shared memory: stages { words | activations | scales of the stage's groups | their zeros }, then, where one group is
// all of k, its scales and zeros. Gated, after the last stage: the sums of the second 128 columns.
//
// Who waits for whom: a thread's copies are complete after Copies::wait, other threads' after the __syncthreads that
// follows; the same __syncthreads shows that every warp has finished reading the stage that is filled next. Where
// copies are held in registers, there is one stage, and a __syncthreads of its own before they are stored into it.
// Parts of k: see w4a16_gemm_block.cuh.
//
// Batch invariance: the parts are the same for any number of rows; see batch_invariant_split_k.cuh.
//
// With activation order a stage has no factors, and no group ends: see w4_activation_order.cuh.
//
// The kernel before in the stream, where the launch overlaps with it, is waited for before anything is read; the next
// one may begin when a block has walked its first piece.
//
// What does not exist (columns from n on, rows from m on, k's from k on) is not read: it arrives as zeros.
//
// Roles that the plan chooses: plan::Copies, see stage_copies_async.cuh; plan::Format, see w4_words_by_k.cuh;
// plan::Epilogue, see epilogue.cuh; plan::Work, see split_k.cuh.
// Which lane touches which byte: w4a16_gemm_lanes.h, shared with the plan's proofs.
//
// PTX ISA: "Asynchronous copy: cp.async", "ldmatrix", "Matrix fragments for mma.m16n8k16 with floating point type",
// "atom", "Memory Consistency Model".
#include "plan.cuh"

#include "core/mma.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "gemm/stage_fetcher.cuh"
#include "gemm/w4a16_gemm_block.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "kernels/w4a16_gemm_arguments.h"
#include "weight_format/w4_activation_order.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

constexpr int kGroupSteps = gemm_lanes::kStageK / gemm_lanes::kStepK / kStageGroups;
constexpr int kUnrolledGroups = kFewRegisters ? 1 : kStageGroups;
// Likewise, beside copies in registers and with 64 rows, the loads of more than two steps.
constexpr int kUnrolledSteps = kGroupSteps > 2 && kRowTiles > 4 && Copies::kHolds ? 2 : kGroupSteps;

/// Where a lane's accesses begin in each of the warp's strips.
struct WarpPlaces {
  Format::Places of[kWarpStrips];

  __device__ __forceinline__ WarpPlaces() {
#pragma unroll
    for (int strip = 0; strip < kWarpStrips; ++strip) of[strip] = Format::places(first_strip() + strip, 0);
  }
  static __device__ __forceinline__ int first_strip() { return kWarpStrips * column_warp(); }
};

template <int kProduct, int kTile>
__device__ __forceinline__ void multiply_tile(const Format::Weights& weights, const Format::Zeros& zeros,
                                              const uint32 (&b)[kRowTiles][4], RowSums (&products)[kRowTiles]) {
  uint32 a[4];
  Format::operand<kProduct, kTile>(a, weights, zeros);
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t)
    mma_m16n8k16<Element>(products[t][kTile], a[0], a[1], a[2], a[3], b[t][2 * kProduct], b[t][2 * kProduct + 1]);
}

template <int kProduct>
__device__ __forceinline__ void multiply_tiles(const Format::Weights& weights, const Format::Zeros& zeros,
                                               const uint32 (&b)[kRowTiles][4], RowSums (&products)[kRowTiles]) {
  multiply_tile<kProduct, 0>(weights, zeros, b, products);
  multiply_tile<kProduct, 1>(weights, zeros, b, products);
}

/// products += those of the steps that a stage has of group `group` of its groups. `zeros`: the group's row of them.
__device__ __forceinline__ void multiply_group(Sums& products, uint32 stage, uint32 zeros, const WarpPlaces& places,
                                               int group) {
  typename Format::Zeros group_zeros[kWarpStrips];
#pragma unroll
  for (int strip = 0; strip < kWarpStrips; ++strip) Format::load_zeros(group_zeros[strip], zeros, places.of[strip]);
#pragma unroll(kUnrolledSteps)
  for (int i = 0; i < kGroupSteps; ++i) {
    const int step = group * kGroupSteps + i;
    uint32 b[kRowTiles][4];
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t)
      Format::load_activations(b[t], stage + plan::kActivationsAt, places.of[0], t, step);
#pragma unroll
    for (int strip = 0; strip < kWarpStrips; ++strip) {
      Format::Weights weights;
      Format::load_weights(weights, stage, places.of[strip], step);
      multiply_tiles<0>(weights, group_zeros[strip], b, products[strip]);
      multiply_tiles<1>(weights, group_zeros[strip], b, products[strip]);
    }
  }
}

/// sums += scale · products. `scales`: the group's row of them.
__device__ __forceinline__ void scale_group(Sums& sums, const Sums& products, uint32 scales, const WarpPlaces& places) {
#pragma unroll
  for (int strip = 0; strip < kWarpStrips; ++strip) {
    GroupScales group_scales;
    Format::load_scales(group_scales, scales, places.of[strip]);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        sums[strip][t][i / 4][i % 4] += group_scales.of[i / 2] * products[strip][t][i / 4][i % 4];
    }
  }
}

/// With activation order: adds the products of stage `index`, whose weights become numbers first. A template, because
/// formats by n have no such words.
template <class WordsByK>
__device__ __forceinline__ void add_ordered(const W4a16GemmArguments& args, int column_tile, uint32 stage,
                                            const WarpPlaces& places, int index, Sums& sums) {
  const int lane = lane_index();
#pragma unroll 1
  for (int step = 0; step < gemm_lanes::kStageK / gemm_lanes::kStepK; ++step) {
    int groups[8];
    const int row = index * (gemm_lanes::kStageK / 8) + gemm_lanes::words_by_k(lane, 0, step).row;
    load_groups(groups, args, row, args.k / plan::kGroup);
#pragma unroll
    for (int strip = 0; strip < kWarpStrips; ++strip) {
      // Of columns that do not exist, the first one's factors.
      const int column = max(0, strip_column(args, column_tile, WarpPlaces::first_strip() + strip));
      typename WordsByK::Weights weights;
      WordsByK::load_weights(weights, stage, places.of[strip], step);
      uint32 a[2][4][4];  // [term][column][pair]
      dequantise<Element, WordsByK, plan::kStoredZeros, plan::kZeroOffset>(a, weights, args, groups, column);
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        uint32 b[4];
        WordsByK::load_activations(b, stage + plan::kActivationsAt, places.of[0], t, step);
#pragma unroll
        for (int item = 0; item < 8; ++item) {  // of each tile two products of two terms
          const int tile = item / 4;
          const int j = item % 2 * 2;
          const auto& low = a[item / 2 % 2][2 * tile];
          const auto& high = a[item / 2 % 2][2 * tile + 1];
          mma_m16n8k16<Element>(sums[strip][t][tile], low[j], high[j], low[j + 1], high[j + 1], b[j], b[j + 1]);
        }
      }
    }
  }
}

/// The stages of a piece.
__device__ __forceinline__ void multiply_stages(const W4a16GemmArguments& args, const WorkTile& work_tile,
                                                uint32 stages, Sums& sums) {
  constexpr uint32 kZeros = plan::kZerosAt - plan::kScalesAt;
  const WarpPlaces places;
  const uint32 whole_scales = stages + plan::kStages * plan::kStageBytes;
  StageFetcher fetcher(args, work_tile);
  wait_for_previous_kernel();  // until here nothing was read
  if constexpr (kWholeK) {
    sync_ring();  // nobody still reads those of the piece before
    fetcher.fetch_factors<kFullStages>(whole_scales, 1);
    fetcher.store_factors(whole_scales, 1);
  }
  Sums whole = {};
  // One loop fills and drains the ring: stage `ahead` is fetched while stage `ahead - kAhead` is used.
  int fill = 0;
#pragma unroll 1
  for (int ahead = work_tile.first; ahead < work_tile.last + Copies::kAhead; ++ahead) {
    Copies::wait();
    if constexpr (Copies::kHolds) {
      __syncthreads();  // nobody still reads the stage
      if (ahead > work_tile.first) fetcher.store(stages);
    }
    sync_ring();
    if (ahead < work_tile.last) fetcher.fetch(stages + fill * plan::kStageBytes);
    Copies::close();
    fill = fill + 1 == plan::kStages ? 0 : fill + 1;  // the stage that is filled next is the one in use now
    if (ahead - Copies::kAhead < work_tile.first) continue;
    const uint32 stage = settled(stages + fill * plan::kStageBytes);
    if constexpr (plan::kActivationOrder) {
      add_ordered<Format>(args, work_tile.column_tile, stage, places, ahead - Copies::kAhead, sums);
    } else if constexpr (kWholeK) {
      multiply_group(whole, stage, whole_scales + kZeros, places, 0);
    } else {
#pragma unroll(kUnrolledGroups)
      for (int group = 0; group < kStageGroups; ++group) {
        const uint32 scales = stage + plan::kScalesAt + group * kScaleRowBytes;
        const uint32 zeros = stage + plan::kZerosAt + group * kZeroRowBytes;
        Sums products = {};
        multiply_group(products, stage, zeros, places, group);
        scale_group(sums, products, scales, places);
      }
    }
  }
  Copies::wait_all();
  if constexpr (kWholeK) {
    __syncwarp();  // a team that has no stage has met nobody yet, and scales are other lanes' copies
    scale_group(sums, whole, whole_scales, places);
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kTeams* plan::kWarps * 32, plan::kBlocksPerSm)
    w4a16_gemm(const __grid_constant__ cubit::W4a16GemmArguments args) {
  using namespace cubit;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32 stages = settled(shared_address(shared));
  plan::Scheduler scheduler(args);
  WorkTile work_tile = scheduler.first();
#pragma unroll 1
  do {
    Sums sums = {};
    multiply_stages(args, work_tile, stages + (kIntraBlockSplitK ? warp_index() * plan::kRingBytes : 0), sums);
    allow_next_kernel();
    finish_work_tile(args, scheduler, work_tile, stages, sums);
  } while (scheduler.next(work_tile));
}
