// Weight-only 4-bit matrix multiplication, on the words of a checkpoint as they are.
// Family sm90: copies of boxes by tensor maps (TMA), transaction barriers, wgmma; sm_90a only.
//
// What is computed, the block's columns and rows, and the way from sums to output: as in sm80_w4a16_gemm.cuh and
// w4a16_gemm_block.cuh. What differs:
//
// - One more warp does nothing but copy: boxes of words, activations and scales, zeros 4 bytes per lane. What is
//   outside a tensor arrives as zeros, so the other warps never ask what exists. Three more put pairs of activations,
//   where they lie, into the order that words want, if they want one: w4_copied_words.cuh. With many rows that is for a
//   block's first stages only; of the others all blocks together have done it, in the workspace: see
//   reordered_activations.cuh.
// - Four warps multiply together: 128 columns, two tiles of 64, in each of which a warp has 16 of its strip's 32
//   columns. Weights are the A operand, from registers; all rows of activations the B operand, from shared memory.
// - The two tiles take turns: while the tensor cores multiply some steps of one, the warp makes operands of the
//   other's. A group's products are scaled when they are complete, one turn later, the last ones at the stage's end.
//
// Shared memory: stages { words | activations: of the first 64 k's, of the second | scales: of the first 128 columns,
// of the second | zeros }, on kBarriersAt three barriers per stage, `arrived`, `empty` and `full`, and behind them
// those of a pair, `free` and a `sent` for each warp that multiplies (two_cta_cluster.cuh); gated, on kUpsAt the sums of the
// second 128 columns.
//
// Who waits for whom: the copying warp until the others have arrived at a stage's `empty`; those that put activations
// in order until the copies have at `arrived`; those that multiply until these have at `full` (where nobody puts
// anything in order that is `arrived`). A stage is empty when all its products are complete, at its end. Nobody is a
// round ahead: the next `arrived` wants `empty`, and that wants `full`, for which every warp that puts in order must
// arrive.
//
// Where all blocks put activations in order together: those that multiply wait until the copying warp has started its
// first stages' copies, it until they have stored the block's slice, and then until all slices are done.
//
// Parts of k: see w4a16_gemm_block.cuh; of an even number of them, not gated, cluster_split_k.cuh.
//
// The kernel before in the stream, where the launch overlaps with it, is waited for before anything is read.
//
// Roles that the plan chooses: plan::Format, see w4_copied_words.cuh; plan::Epilogue and plan::Work as in family sm80.
//
// PTX ISA: "wgmma", "cp.async.bulk.tensor", "mbarrier", and those of sm80_w4a16_gemm.cuh.
#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "gemm/cluster_split_k.cuh"
#include "gemm/reordered_activations.cuh"
#include "gemm/split_k.cuh"
#include "gemm/w4a16_gemm_block.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "kernels/w4a16_gemm_arguments.h"
#include "weight_format/w4_values.cuh"

namespace cubit {

constexpr bool kWholeK = plan::kGroup == 0;  // one group
constexpr int kStageGroups = kWholeK ? 1 : gemm_lanes::kStageK / plan::kGroup;
constexpr int kSteps = gemm_lanes::kStageK / 16;  // products of a stage and tile
// At most a group's; with 64 rows' accumulators there are registers for 64 k's of operands.
constexpr int kBatchSteps = plan::kGroup == 32 ? 2 : plan::kTileM > 32 || plan::kGroup == 64 ? 4 : 8;  // of one turn
constexpr int kBatches = kSteps / kBatchSteps;  // of a stage and tile
constexpr int kGroupBatches = kBatches / kStageGroups;
constexpr int kHalfColumns = gemm_lanes::kBlockColumns / 2;
constexpr uint32 kHalfScales = 2 * kHalfColumns;         // bytes of a group
constexpr uint32 kHalfActivations = 128 * plan::kTileM;  // bytes of 64 k's
constexpr uint32 kWordBytes = gemm_lanes::kStageK * gemm_lanes::kBlockColumns / 2;
constexpr int kReorderWarps = plan::kCopyWarps - 1;
constexpr int kBoxes = gemm_lanes::kBlockColumns / Format::kBoxColumns;

/// The maps' dimensions: [rows of words, or k by n][words], [m][k], [groups][n], and of activations in order [m][whole
/// chunks of k]; the last is contiguous.
struct BoxArguments : W4a16GemmArguments {
  TensorMap word_map;
  TensorMap activation_map;
  TensorMap scale_map;
};
struct Arguments : BoxArguments, ReorderedMap<plan::kReorders> {};

/// Counts down the stages of a block whose activations it puts in order itself: where all blocks put them in order
/// together the first few, else all.
struct OwnStages {
  static constexpr int kCount = 2;
  // The warp that copies waits for no stage to be empty before it has told those that multiply whose slice it is.
  static_assert(kCount < plan::kStages);
  int left = kCount;

  __device__ __forceinline__ bool take() {
    if (!plan::kReorders) return true;
    const bool is_own = left > 0;
    left -= is_own ? 1 : 0;
    return is_own;
  }
};

using Reordered = ReorderedActivations<Format, plan::kReorders>;
using StagePlace = RingPlace<plan::kStages>;

constexpr bool kCanCluster = !plan::Epilogue::kGated && kRowTiles % 2 == 0;  // see cluster_split_k.cuh

/// Addresses in shared memory.
struct Ring {
  uint32 base;

  __device__ __forceinline__ uint32 stage(StagePlace place) const { return base + place.index * plan::kStageBytes; }
  /// What has been copied; and when activations are in order as well.
  __device__ __forceinline__ uint32 arrived(StagePlace place) const { return barrier(place.index); }
  __device__ __forceinline__ uint32 full(StagePlace place) const {
    return barrier(place.index) + (Format::kNeedsReorder ? 16 : 0);
  }
  __device__ __forceinline__ uint32 empty(StagePlace place) const { return barrier(place.index) + 8; }
  /// Of a pair and a warp.
  __device__ __forceinline__ ClusterBarriers cluster_barriers(int warp) const {
    const uint32 free = barrier(plan::kStages);
    return {free, free + 8 + 8 * warp};
  }

  /// By a thread of each warp, a stage's and a warp's: lanes that made one each would take turns at it.
  __device__ __forceinline__ void init_barriers() const {
    constexpr int kArrivals = plan::kStoredZeros ? 1 + kWarpSize : 1;
    const int index = warp_index();
    if (!elect_one()) return;
    if (index < plan::kStages) {
      init_barrier(barrier(index), kArrivals);
      init_barrier(barrier(index) + 8, plan::kWarps);
      init_barrier(barrier(index) + 16, kReorderWarps);
    }
    if (kCanCluster && index == 0) init_barrier(cluster_barriers(0).free, 1);
    if (kCanCluster && index < plan::kWarps) init_barrier(cluster_barriers(index).sent, 1);
    fence_barrier_init();
  }

 private:
  __device__ __forceinline__ uint32 barrier(int stage) const {
    return base + plan::kBarriersAt + gemm_lanes::kStageBarrierBytes * stage;
  }
};

__device__ __forceinline__ WorkTile first_work_tile(const Arguments& args, plan::Scheduler& scheduler) {
  if (kCanCluster && args.clustered) return work_tile_of_clustered_block(args);
  return scheduler.first();
}

/// By one thread: half of a stage's activations, as they are or, by another map, in order.
__device__ __forceinline__ void copy_half(const TensorMap& map, const WorkTile& work_tile, int stage, int half,
                                          uint32 dst, uint32 arrived) {
  copy_box(dst + plan::kActivationsAt + half * kHalfActivations, map, stage * gemm_lanes::kStageK + 64 * half,
           work_tile.row_tile * plan::kTileM, arrived);
}
__device__ __forceinline__ void copy_activations(const TensorMap& map, const WorkTile& work_tile, int stage, uint32 dst,
                                                 uint32 arrived) {
#pragma unroll
  for (int half = 0; half < 2; ++half) copy_half(map, work_tile, stage, half, dst, arrived);
}

/// Whether activations are copied beside scales, and not behind zeros: as measured.
constexpr bool kActivationsFirst = Format::kNeedsReorder && !plan::kReorders;

/// By one thread, the first of a stage's copies: how many bytes all of them are, words and scales.
__device__ __forceinline__ void copy_boxes(const Arguments& args, const WorkTile& work_tile, int stage, uint32 dst,
                                           uint32 arrived) {
  constexpr int kColumnsPerWord = 8 / Format::kWordK;
  expect_bytes(arrived, kWordBytes + 2 * kHalfActivations + 2 * kStageGroups * kHalfScales);
  const int tile = work_tile.column_tile * gemm_lanes::kBlockColumns;
  // Of the half's first column: gated, the second half is of other columns.
  const auto column_of = [&](int half) {
    return plan::Epilogue::kGated ? tile / 2 + half * (args.n / 2) : tile + half * kHalfColumns;
  };
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    const int column = column_of(2 * i / kBoxes) + i % (kBoxes / 2) * Format::kBoxColumns;
    copy_box(dst + i * (kWordBytes / kBoxes), args.word_map, column / kColumnsPerWord, stage * Format::kWordRows,
             arrived);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (kActivationsFirst) copy_half(args.activation_map, work_tile, stage, half, dst, arrived);
    copy_box(dst + plan::kScalesAt + half * kStageGroups * kHalfScales, args.scale_map, column_of(half),
             kWholeK ? 0 : stage * kStageGroups, arrived);
  }
}

/// By all lanes of the copying warp: the zeros of a stage's groups, a word each.
__device__ __forceinline__ void copy_zeros(const Arguments& args, const WorkTile& work_tile, int stage, uint32 dst) {
  const int column = weight_column(args, work_tile.column_tile, 8 * lane_index());
#pragma unroll
  for (int i = 0; i < kStageGroups; ++i) {
    const int group = kWholeK ? 0 : stage * kStageGroups + i;
    const bool valid = column >= 0 && (kWholeK || group * plan::kGroup < args.k);
    const int64 word = valid ? (group * static_cast<int64>(args.n) + column) / 8 : 0;
    const char* const src = static_cast<const char*>(args.qzeros) + 4 * word;
    copy_async<4>(dst + i * gemm_lanes::kZeroBytes + 4 * lane_index(), src, valid);  // access: cp.async of zeros
  }
}

/// The warp that copies. The place behind the last stage.
__device__ __forceinline__ StagePlace copy_stages(const Arguments& args, Ring ring) {
  Reordered reordered(args);
  reordered.take_own();
  plan::Scheduler scheduler(args);
  WorkTile work_tile = first_work_tile(args, scheduler);
  OwnStages own_stages;
  StagePlace place;
#pragma unroll 1
  do {
#pragma unroll 1
    for (int stage = work_tile.first; stage < work_tile.last; ++stage) {
      const uint32 arrived = ring.arrived(place);
      wait_barrier(ring.empty(place), place.parity ^ 1);  // the first time round at once
      if (elect_one()) copy_boxes(args, work_tile, stage, ring.stage(place), arrived);
      if constexpr (plan::kStoredZeros) {
        copy_zeros(args, work_tile, stage, ring.stage(place) + plan::kZerosAt);
        arrive_after_copies(arrived);
      }
      if (kActivationsFirst) {
        // They are on their way.
      } else if (own_stages.take()) {
        if (elect_one()) copy_activations(args.activation_map, work_tile, stage, ring.stage(place), arrived);
      } else {
        reordered.wait();
        if (elect_one())
          copy_activations(args.in_order(args.activation_map), work_tile, stage, ring.stage(place), arrived);
      }
      __syncwarp();
      place.advance();
    }
  } while (scheduler.next(work_tile));
  reordered.leave();
  wait_copies<0>();
  return place;
}

/// The warps that put activations in order, 64 k's of a row per lane at a time.
template <class CopiedWords>
__device__ __forceinline__ void reorder_stages(const Arguments& args, Ring ring) {
  if constexpr (CopiedWords::kNeedsReorder) {
    constexpr int kItems = 2 * plan::kTileM;
    plan::Scheduler scheduler(args);
    WorkTile work_tile = first_work_tile(args, scheduler);
    OwnStages own_stages;
    StagePlace place;
#pragma unroll 1
    do {
#pragma unroll 1
      for (int stage = work_tile.first; stage < work_tile.last; ++stage) {
        wait_barrier(ring.arrived(place), place.parity);
        const int items = own_stages.take() ? kItems : 0;  // the others are in order
#pragma unroll 1
        for (int item = static_cast<int>(thread_index()) - (plan::kWarps + 1) * kWarpSize; item < items;
             item += kReorderWarps * kWarpSize) {
          CopiedWords::reorder_in_shared(ring.stage(place) + plan::kActivationsAt, item % plan::kTileM,
                                         item / plan::kTileM * 128);
        }
        fence_async_proxy();  // the tensor cores read what is stored here
        __syncwarp();
        if (elect_one()) arrive(ring.full(place));
        place.advance();
      }
    } while (scheduler.next(work_tile));
  }
}

using Products = RowSums[kRowTiles];

/// sums += scales · products, of one tile, whose two columns per lane have a scale each. By `asm`, so that nothing is
/// read before the wait for it, and nothing moved: products are in flight.
__device__ __forceinline__ void scale_products(Products& sums, Products& products, int tile, const float (&scales)[2]) {
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("fma.rn.f32 %0, %1, %2, %0;"
                   : "+f"(sums[t][tile][i])
                   : "f"(products[t][tile][i]), "f"(scales[i / 2]));
    }
  }
}

using Words = Format::Words<kBatchSteps / 2>;

/// Starts the products of one turn of a tile.
__device__ __forceinline__ void start_batch(Products& products, uint32 stage, const Words& words, int tile, int batch,
                                            const GroupZeros& zeros) {
  uint32 a[kBatchSteps][4];
#pragma unroll
  for (int i = 0; i < kBatchSteps; ++i) {
    words.operand(a[i], i, tile, zeros);
    settle_operand(a[i]);
  }
  const uint64 b = describe_rows_of_128(stage + plan::kActivationsAt);
  const bool begins = !kWholeK && batch % kGroupBatches == 0;
  fence_products();
#pragma unroll
  for (int i = 0; i < kBatchSteps; ++i) {
    const int step = batch * kBatchSteps + i;
    start_product<Element>(products, tile, a[i], b + (step / 4 * kHalfActivations + step % 4 * 32) / 16,
                           begins && i == 0 ? 0 : 1);
  }
  commit_products();
}

/// The stages of a piece.
__device__ __forceinline__ void multiply_stages(const WorkTile& work_tile, Ring ring, StagePlace& place,
                                                Products& sums) {
  const int warp = warp_index();
  const auto places = Format::places(warp);
  // The row of scales is cut in halves, as the block's columns.
  const uint32 scales_at = plan::kScalesAt + warp / 4 * (kStageGroups - 1) * kHalfScales;
  Products products = {};
  GroupScales scales;
#pragma unroll 1
  for (int stage = work_tile.first; stage < work_tile.last; ++stage) {
    wait_barrier(ring.full(place), place.parity);
    // The same in all lanes, which descriptors must be known to be.
    const uint32 base = __shfl_sync(kFullWarp, ring.stage(place), 0);
    GroupZeros zeros;
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      const int group = batch / kGroupBatches;
      const bool begins = batch % kGroupBatches == 0;
      const bool ends = (batch + 1) % kGroupBatches == 0;
      if (begins) Format::load_zeros(zeros, base + plan::kZerosAt + group * gemm_lanes::kZeroBytes, places);
      Words words;
      Format::load_words(words, base, places, batch * (kBatchSteps / 2));
      start_batch(products, base, words, 0, batch, zeros);
      wait_products<1>();
      if (begins && batch > 0 && !kWholeK) scale_products(sums, products, 1, {scales.of[2], scales.of[3]});
      if (ends) Format::load_scales(scales, base + scales_at + group * kHalfScales, places);
      start_batch(products, base, words, 1, batch, zeros);
      wait_products<1>();
      if (ends && !kWholeK) scale_products(sums, products, 0, {scales.of[0], scales.of[1]});
    }
    wait_products<0>();
    if (!kWholeK) scale_products(sums, products, 1, {scales.of[2], scales.of[3]});
    __syncwarp();
    if (elect_one()) arrive(ring.empty(place));
    place.advance();
  }
  if (!kWholeK) return;
  scale_products(sums, products, 0, {scales.of[0], scales.of[1]});
  scale_products(sums, products, 1, {scales.of[2], scales.of[3]});
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__((plan::kWarps + plan::kCopyWarps) * 32, plan::kBlocksPerSm)
    w4a16_gemm(const __grid_constant__ cubit::Arguments args) {
  using namespace cubit;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Ring ring{shared_address(shared)};
  allow_next_kernel();
  if (threadIdx.x == 0) {
    prefetch_map(args.word_map);
    prefetch_map(args.activation_map);
    prefetch_map(args.scale_map);
    if (plan::kReorders) prefetch_map(args.in_order(args.activation_map));
  }
  ring.init_barriers();
  wait_for_previous_kernel();
  __syncthreads();
  const bool is_clustered = kCanCluster && args.clustered;
  if (is_clustered) arrive_in_cluster();
  if (warp_index() >= plan::kWarps) {
    give_registers<plan::kCopyRegisters>();
    if (warp_index() == plan::kWarps) {
      const StagePlace end = copy_stages(args, ring);
      if (is_clustered) {
        wait_for_cluster();
        if (elect_one()) release_stages(ring, end, plan::kStages, ring.cluster_barriers(0).free);
      }
    } else {
      reorder_stages<Format>(args, ring);
      if (is_clustered) wait_for_cluster();
    }
    return;
  }
  take_registers<plan::kMultiplyRegisters>();
  StagePlace place;
  plan::Scheduler scheduler(args);
  WorkTile work_tile = first_work_tile(args, scheduler);
  Reordered(args).reorder_own();
#pragma unroll 1
  do {
    Sums sums = {};
    multiply_stages(work_tile, ring, place, sums[0]);
    if (is_clustered) {
      wait_for_cluster();
      merge_cluster(args, work_tile, ring.base, ring.cluster_barriers(warp_index()), sums);
      break;
    }
    finish_work_tile(args, scheduler, work_tile, ring.base + plan::kUpsAt, sums);
  } while (scheduler.next(work_tile));
}
