// GEMM with mma.sync: 16-bit activations times 4-bit or 8-bit weights, which stay packed as the checkpoint has
// them.
//
//   output[m, n] = epilogue(sum over k of activations[m, k] · scale[g, n] · (q[k, n] - zero[g, n])),  g = k / group
//
// Rows are tokens m and columns are output features n. The weights are the A operand of the mma instructions, so
// columns are the M of an instruction and rows are its N. Few rows therefore waste little of an instruction.
//
// Families: sm80 uses cp.async, ldmatrix and mma.sync, on sm_80 and later. Family sm75 replaces cp.async by loads and
// stores (stage_copies_registers.cuh), and m16n8k16 by two m16n8k8 on devices without m16n8k16 (mma.cuh). Family sm75
// supports fp16 only.
//
// Block tile, with one block per (256 columns, kTileM rows, split-K slice) or with a balanced schedule (split_k.cuh):
//
//                    kTileM rows, 8 per mma
//                  +-----------+
//    256 columns:  |  warp 0   |   A warp has all rows of kWarpStrips strips of 32 columns. A strip is two mma tiles of
//                  |    …      |   16 columns. A lane has four columns of a strip, and two of each 8 rows.
//                  |  last     |   With a gated epilogue, the second 128 columns are the up-projection columns, which
//                  +-----------+   begin args.n / 2 further on than the gate columns.
//
// With tile_n = 64 or 32 the block uses intra-block split-K instead: it computes all of k, and every warp has all
// columns, its own slice of k and its own ring of stages. Warps do not synchronise in the main loop; they add their
// partial sums in shared memory at the end. See intra_block_split_k.cuh.
//
// Main loop: a stage is 128 values along k. An mma operand is a 4-bit or 8-bit weight minus its zero, which is exact.
// Within a quantisation group products accumulate in fp32. At the end of a group, sum += scale · product.
//
// Shared memory:
//   stages { words | activations | scales of the stage's groups | zeros of these groups }
//   scales and zeros, if one group spans all of k
//   sums of the up-projection columns, if the epilogue is gated
//
// Who waits for whom:
// - Copies::wait completes the thread's own copies of a stage. The __syncthreads that follows completes the copies of
//   the other threads. The same __syncthreads shows that all warps have read the stage that is filled next.
// - Copies staged through registers use a single stage. A __syncthreads of its own precedes the stores into that stage.
// - For the merge of split-K slices see gemm_block.cuh.
//
// Batch invariance: the split-K slices are the same for any number of rows; see batch_invariant_split_k.cuh.
//
// Activation order: stages have no scales and zeros, and no group ends within the loop; see w4_activation_order.cuh.
//
// Overlapping launches: the kernel waits for the preceding kernel of the stream before it reads anything. The next
// kernel may begin when a block has finished the main loop of its first work tile.
//
// Columns from n on, rows from m on, and values from k on are not read; they arrive as zeros.
//
// Roles that the plan chooses: plan::Copies, see stage_copies_async.cuh; plan::Format, see w4_words_by_k.cuh;
// plan::Epilogue, see epilogue.cuh; plan::Scheduler, see split_k.cuh. The byte offsets that each lane accesses are in
// gemm_lanes.h, which the plan's proofs use as well. stage_fetcher.cuh has the copies of a stage.
//
// PTX ISA: "Asynchronous copy: cp.async", "ldmatrix", "Matrix fragments for mma.m16n8k16 with floating point type",
// "atom", "Memory Consistency Model".
#include "plan.cuh"

#include "core/mma.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/stage_fetcher.cuh"
#include "weight_format/packed_gemm_arguments.h"
#include "weight_format/w4_activation_order.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

constexpr int kGroupSteps = gemm_lanes::kStageK / gemm_lanes::kStepK / kStageGroups;
constexpr int kUnrolledGroups = kFewRegisters ? 1 : kStageGroups;
// With 64 rows and copies staged through registers, the loads of more than two steps would spill.
constexpr int kUnrolledSteps = kGroupSteps > 2 && kRowTiles > 4 && Copies::kHolds ? 2 : kGroupSteps;

/// Offsets at which a lane's accesses begin, for each strip of the warp.
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

/// products += the products of one quantisation group of a stage. `group` is the group's index in the stage, and
/// `zeros` is the address of the group's zeros.
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

/// sums += scale · products. `scales` is the address of the group's scales.
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

/// Activation order: dequantises the weights of stage `index` and adds their products to `sums`. The function is a
/// template, because formats by n lack some of the members that it uses.
template <class WordsByK>
__device__ __forceinline__ void add_ordered(const PackedGemmArguments& args, int column_tile, uint32 stage,
                                            const WarpPlaces& places, int index, Sums& sums) {
  const int lane = lane_index();
#pragma unroll 1
  for (int step = 0; step < gemm_lanes::kStageK / gemm_lanes::kStepK; ++step) {
    int groups[8];
    const int row = index * (gemm_lanes::kStageK / 8) + gemm_lanes::words_by_k(lane, 0, step).row;
    load_groups(groups, args, row, args.k / plan::kGroup);
#pragma unroll
    for (int strip = 0; strip < kWarpStrips; ++strip) {
      // Lanes whose columns do not exist use the scales and zeros of column 0.
      const int column = max(0, strip_column(args, column_tile, WarpPlaces::first_strip() + strip));
      typename WordsByK::Weights weights;
      WordsByK::load_weights(weights, stage, places.of[strip], step);
      uint32 a[2][4][4];  // [term][column][pair of values along k]
      dequantise<Element, WordsByK, plan::kStoredZeros, plan::kZeroOffset>(a, weights, args, groups, column);
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        uint32 b[4];
        WordsByK::load_activations(b, stage + plan::kActivationsAt, places.of[0], t, step);
#pragma unroll
        for (int item = 0; item < 8; ++item) {  // per tile of 16 columns: two terms of two products
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

/// Main loop: adds the products of all stages of a work tile to `sums`.
__device__ __forceinline__ void multiply_stages(const PackedGemmArguments& args, const WorkTile& work_tile,
                                                uint32 stages, Sums& sums) {
  constexpr uint32 kZeros = plan::kZerosAt - plan::kScalesAt;
  const WarpPlaces places;
  const uint32 whole_scales = stages + plan::kStages * plan::kStageBytes;
  StageFetcher fetcher(args, work_tile);
  wait_for_previous_kernel();  // the code above reads nothing from global memory
  if constexpr (kWholeK) {
    sync_ring();  // no thread reads the scales of the previous work tile any more
    fetcher.fetch_factors<kFullStages>(whole_scales, 1);
    fetcher.store_factors(whole_scales, 1);
  }
  Sums whole = {};
  // One loop fills and drains the pipeline: stage `ahead` is fetched while stage `ahead - kAhead` is multiplied.
  int fill = 0;
#pragma unroll 1
  for (int ahead = work_tile.first; ahead < work_tile.last + Copies::kAhead; ++ahead) {
    Copies::wait();
    if constexpr (Copies::kHolds) {
      __syncthreads();  // no thread reads the stage any more
      if (ahead > work_tile.first) fetcher.store(stages);
    }
    sync_ring();
    if (ahead < work_tile.last) fetcher.fetch(stages + fill * plan::kStageBytes);
    Copies::close();
    fill = fill + 1 == plan::kStages ? 0 : fill + 1;  // the stage that is filled next is the stage in use now
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
    // A warp whose slice has no stage has passed no barrier yet, and other lanes have copied its scales.
    __syncwarp();
    scale_group(sums, whole, whole_scales, places);
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kPartitionsK* plan::kWarps * 32, plan::kBlocksPerSm)
    gemm(const __grid_constant__ cubit::PackedGemmArguments args) {
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
