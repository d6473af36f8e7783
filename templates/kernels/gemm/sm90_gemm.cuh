// Warp-specialised GEMM for sm_90a, with TMA box copies that complete on mbarriers, and wgmma.
//
// The formula, the columns and rows of a block, and the epilogue are those of sm80_gemm.cuh and gemm_block.cuh. The
// differences are:
//
// - Producer warp. One additional warp only copies: box copies of weights, activations and scales, and 4-byte cp.async
//   copies of zeros. TMA fills whatever lies outside a tensor with zeros, so consumer warps need no bounds checks.
// - Reorder warps. If the weights require another order along k (word_activations.cuh), three more warps reorder the
//   activations of a stage in place. With many rows they do so for a block's first stages only; the activations of all
//   further stages are reordered once per launch, in the workspace (reordered_activations.cuh).
// - Consumer warps. Every four consumer warps form a warpgroup with 128 columns, which are two wgmma tiles of 64
//   columns. In each tile a warp has 16 of its strip's 32 columns. Weights are the A operand, from registers if the
//   weights are packed. The activations of all rows are the B operand, from shared memory.
// - Overlap of math and unpacking. The two tiles alternate: while the tensor cores run a batch of wgmma instructions
//   for one tile, the warp unpacks operands for the other tile. A group's products are scaled one batch after they are
//   complete, or at the end of the stage.
//
// Shared memory:
//   stages { weights | activations in parts of 128 bytes along k | scales of the first 128 columns, of the second 128
//            columns | zeros }
//   kBarriersAt  three mbarriers per stage: `arrived`, `empty` and `full`; then the mbarriers of a 2-CTA cluster:
//                `free`, and one `sent` per consumer warp (two_cta_cluster.cuh)
//   kUpSumsAt    sums of the up-projection columns, if the epilogue is gated
//
// Who waits for whom:
// - The producer warp waits at a stage's `empty` barrier until all consumer warps have arrived there.
// - The reorder warps wait at `arrived` until the stage's copies are complete.
// - The consumer warps wait at `full` until the reorder warps have arrived there. Without reordering, `full` and
//   `arrived` are the same barrier. A consumer warp arrives at `empty` at the end of a stage, when all products are
//   complete.
// - No warp can be a whole round of the ring ahead: the next phase of `arrived` needs `empty`, and `empty` needs
//   `full`, at which every reorder warp must arrive.
// - With reordering once per launch, the consumer warps wait until the producer warp has started the copies of the
//   first stages. The producer warp then waits until the consumer warps have stored the block's reorder slice, and
//   finally until all slices are stored.
//
// Split-K slices are merged as in split_k_merge.cuh. With an even number of slices and an epilogue that is not gated,
// 2-CTA clusters merge pairs of slices first; see cluster_split_k.cuh.
//
// If the launch overlaps with the preceding kernel of the stream, the kernel waits for its predecessor before reading
// anything.
//
// Roles that the plan chooses: plan::Weights, see w4_copied_words.cuh; plan::Product, see warpgroup_product.cuh;
// plan::Activations, plan::Scaling, plan::Scheduler and plan::Epilogue, as in sm80_gemm.cuh.
//
// PTX ISA: "wgmma", "cp.async.bulk.tensor", "mbarrier", and the sections named in sm80_gemm.cuh.
#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "gemm/cluster_split_k.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/reordered_activations.cuh"
#include "gemm/split_k.cuh"
#include "gemm/split_k_merge.cuh"
#include "kernels/gemm/gemm_arguments.h"
#include "pipeline/stage_ring.cuh"

namespace cubit {

constexpr int kStageGroups = Weights::kStageGroups;
constexpr int kSteps = kStageRowBytes / 32;  // wgmma instructions per stage and tile
// Steps of 32 bytes along k per batch. A batch is one commit group of wgmma instructions of one tile, within one
// quantisation group. With the accumulators of 64 rows, the operands of only 64 values along k fit into the registers.
constexpr int kGroupSteps = kSteps / kStageGroups;
constexpr int kBatchSteps = kGroupSteps < 4 ? kGroupSteps : plan::kTileM > 32 || kGroupSteps == 4 ? 4 : 8;
constexpr int kBatches = kSteps / kBatchSteps;  // batches per stage and tile
constexpr int kGroupBatches = kBatches / kStageGroups;
constexpr int kReorderWarps = plan::kProducerWarps - 1;

/// The columns of a block, which are in two halves. With a gated epilogue, the second half has the up-projection
/// columns.
struct BoxColumns {
  static constexpr int kHalves = 2;
  static constexpr int kHalfColumns = gemm_lanes::kBlockColumns / 2;

  static __device__ __forceinline__ int first_column(const GemmArguments& args, const WorkTile& work_tile, int half) {
    const int tile = work_tile.column_tile * gemm_lanes::kBlockColumns;
    return plan::Epilogue::kGated ? tile / 2 + half * (args.n / 2) : tile + half * kHalfColumns;
  }
  static __device__ __forceinline__ int weight_column(const GemmArguments& args, int column_tile, int place) {
    return cubit::weight_column(args, column_tile, place);
  }
};
using Boxes = Weights::Boxes<BoxColumns>;

/// Kernel arguments with tensor maps. Dimensions of the maps, the contiguous one last: weights, see the weight operand;
/// activations [m][k], and reordered activations [m][k rounded up to 64].
struct BoxArguments : Weights::Arguments {
  TensorMap weight_map;
  TensorMap activation_map;
};
struct Arguments : BoxArguments, Weights::Maps, ReorderedMap<plan::kReorders> {};

/// Tells which stages' activations this block reorders itself: all stages, or the first kCount stages if the launch
/// reorders the rest in the workspace.
struct OwnStages {
  static constexpr int kCount = 2;
  // Before their first stage the consumer warps wait until the producer warp says whether the block has taken its own
  // reorder slice (vote_taken in reordered_activations.cuh). The producer warp says so when it reaches stage kCount.
  // Until then the producer warp must not wait for consumer warps. Stage kCount therefore lies in the first round of
  // the ring, where waits at `empty` return at once.
  static_assert(kCount < plan::kStages);
  int left = kCount;

  __device__ __forceinline__ bool take() {
    if (!plan::kReorders) return true;
    const bool is_own = left > 0;
    left -= is_own ? 1 : 0;
    return is_own;
  }
};

using Reordered = ReorderedActivations<Activations, plan::kReorders>;
using StagePlace = RingPlace<plan::kStages>;

// True if the plan allows cluster split-K; see cluster_split_k.cuh.
constexpr bool kCanCluster = !plan::Epilogue::kGated && kRowTiles % 2 == 0;

/// Shared-memory addresses of the stages and the mbarriers.
struct Ring : StageRing<plan::kStageBytes, plan::kBarriersAt, gemm_lanes::kStageBarrierBytes> {
  /// `arrived` completes when the copies are complete, and `full` when the activations are reordered as well.
  __device__ __forceinline__ uint32 arrived(StagePlace place) const { return StageRing::full(place); }
  __device__ __forceinline__ uint32 full(StagePlace place) const {
    return arrived(place) + (Activations::kNeedsReorder ? 16 : 0);
  }
  /// Exchange barriers of a 2-CTA cluster, with the `sent` barrier of consumer warp `warp`.
  __device__ __forceinline__ ClusterBarriers cluster_barriers(int warp) const {
    const uint32 free = barriers(plan::kStages);
    return {free, free + 8 + 8 * warp};
  }

  /// Initialises the mbarriers. One thread of each warp initialises the barriers of one stage and one warp, because the
  /// lanes of a single warp would take turns.
  __device__ __forceinline__ void init_barriers() const {
    const int index = warp_index();
    if (!elect_one()) return;
    if (index < plan::kStages) {
      init_barrier(barriers(index), Boxes::kArrivals);
      init_barrier(barriers(index) + 8, plan::kWarps);
      init_barrier(barriers(index) + 16, kReorderWarps);
    }
    if (kCanCluster && index == 0) init_barrier(cluster_barriers(0).free, 1);
    if (kCanCluster && index < plan::kWarps) init_barrier(cluster_barriers(index).sent, 1);
    fence_barrier_init();
  }
};

__device__ __forceinline__ WorkTile first_work_tile(const Arguments& args, plan::Scheduler& scheduler) {
  if (kCanCluster && args.clustered) return work_tile_of_clustered_block(args);
  return scheduler.first();
}

/// Copies a part of a stage's activations; one thread calls the function. `map` is the map of the original or of the
/// reordered activations.
__device__ __forceinline__ void copy_part(const TensorMap& map, const WorkTile& work_tile, int stage, int part,
                                          uint32 dst, uint32 arrived) {
  copy_box(dst + plan::kActivationsAt + part * kPartActivations, map, stage * kStageK + kPartK * part,
           work_tile.row_tile * plan::kTileM, arrived);
}
__device__ __forceinline__ void copy_activations(const TensorMap& map, const WorkTile& work_tile, int stage, uint32 dst,
                                                 uint32 arrived) {
#pragma unroll
  for (int part = 0; part < kStageParts; ++part) copy_part(map, work_tile, stage, part, dst, arrived);
}

/// True if activations are copied together with the scales, instead of after the zeros. Measurements decided this
/// order.
constexpr bool kActivationsFirst = Activations::kNeedsReorder && !plan::kReorders;

/// Starts the box copies of a stage and sets the transaction count to the bytes of all box copies; one thread calls the
/// function. Activations are included only if kActivationsFirst.
__device__ __forceinline__ void copy_boxes(const Arguments& args, const WorkTile& work_tile, int stage, uint32 dst,
                                           uint32 arrived) {
  static_assert(kStageParts <= BoxColumns::kHalves);
  expect_bytes(arrived, Boxes::kBytes + kStageParts * kPartActivations);
  Boxes::load_words(args, work_tile, stage, dst, arrived);
#pragma unroll
  for (int half = 0; half < BoxColumns::kHalves; ++half) {
    if (kActivationsFirst && half < kStageParts) copy_part(args.activation_map, work_tile, stage, half, dst, arrived);
    Boxes::load_scales(args, work_tile, stage, half, dst + plan::kScalesAt, arrived);
  }
}

/// Loop of the producer warp. Returns the place behind the last stage.
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
      wait_barrier(ring.empty(place), place.parity ^ 1);  // returns at once in the first round
      if (elect_one()) copy_boxes(args, work_tile, stage, ring.stage(place), arrived);
      if constexpr (Weights::kCopiesZeros) {
        Boxes::copy_zeros(args, work_tile, stage, ring.stage(place) + plan::kZerosAt);
        arrive_after_copies(arrived);
      }
      if (kActivationsFirst) {
        // copy_boxes has already started the copies of the activations.
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

/// Loop of the reorder warps: each thread reorders a part of a row at a time.
template <class Order>
__device__ __forceinline__ void reorder_stages(const Arguments& args, Ring ring) {
  if constexpr (Order::kNeedsReorder) {
    constexpr int kItems = kStageParts * plan::kTileM;
    plan::Scheduler scheduler(args);
    WorkTile work_tile = first_work_tile(args, scheduler);
    OwnStages own_stages;
    StagePlace place;
#pragma unroll 1
    do {
#pragma unroll 1
      for (int stage = work_tile.first; stage < work_tile.last; ++stage) {
        wait_barrier(ring.arrived(place), place.parity);
        const int items = own_stages.take() ? kItems : 0;  // other stages arrive in the right order
#pragma unroll 1
        for (int item = static_cast<int>(thread_index()) - (plan::kWarps + 1) * kWarpSize; item < items;
             item += kReorderWarps * kWarpSize) {
          Order::reorder_in_shared(ring.stage(place) + plan::kActivationsAt, item % plan::kTileM,
                                   item / plan::kTileM * 128);
        }
        fence_async_proxy();  // wgmma reads these stores through the asynchronous proxy
        __syncwarp();
        if (elect_one()) arrive(ring.full(place));
        place.advance();
      }
    } while (scheduler.next(work_tile));
  }
}

using StripSums = RowSums[kRowTiles];
using StripProducts = RowProducts[kRowTiles];

/// sums += scales · products, for one tile, in which a lane has two columns with one scale each.
template <class Scaling>
__device__ __forceinline__ void scale_products(StripSums& sums, StripProducts& products, int tile,
                                               const float (&scales)[2]) {
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) Scaling::add_settled(sums[t][tile], products[t][tile], scales);
}

using Batch = Weights::Batch<kBatchSteps / 2>;

/// Makes the operands of one batch of a tile and starts its wgmma instructions.
__device__ __forceinline__ void start_batch(StripProducts& products, uint32 stage, const Batch& words, int tile,
                                            int batch, const Weights::Zeros& zeros) {
  Weights::Operand a[kBatchSteps];
#pragma unroll
  for (int i = 0; i < kBatchSteps; ++i) {
    words.operand(a[i], i, tile, zeros);
    settle_operand(a[i]);
  }
  const uint64 b = describe_rows_of_128(stage + plan::kActivationsAt);
  const bool begins = plan::Scaling::kScalesGroups && batch % kGroupBatches == 0;
  fence_products();
#pragma unroll
  for (int i = 0; i < kBatchSteps; ++i) {
    const int step = batch * kBatchSteps + i;
    plan::Product::start(products, tile, a[i], b + (step / 4 * kPartActivations + step % 4 * 32) / 16,
                         begins && i == 0 ? 0 : 1);
  }
  commit_products();
}

/// Main loop of the consumer warps: adds the products of all stages of a work tile to `sums`.
template <class Scaling>
__device__ __forceinline__ void multiply_stages(const WorkTile& work_tile, Ring ring, StagePlace& place,
                                                StripSums& sums) {
  constexpr bool kScalesGroups = Scaling::kScalesGroups;
  const int warp = warp_index();
  const auto places = Weights::places(warp);
  // Scales are stored in two halves, like the block's columns.
  const uint32 scales_at = plan::kScalesAt + warp / 4 * (kStageGroups - 1) * Boxes::kHalfScaleBytes;
  StripProducts products = {};
  Weights::Scales scales;
#pragma unroll 1
  for (int stage = work_tile.first; stage < work_tile.last; ++stage) {
    wait_barrier(ring.full(place), place.parity);
    // The shuffle shows the compiler that the address is equal in all lanes, which matrix descriptors require.
    const uint32 base = __shfl_sync(kFullWarp, ring.stage(place), 0);
    Weights::Zeros zeros;
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      const int group = batch / kGroupBatches;
      const bool begins = batch % kGroupBatches == 0;
      const bool ends = (batch + 1) % kGroupBatches == 0;
      if (begins) Weights::load_zeros(zeros, base + plan::kZerosAt + group * Boxes::kZeroBytes, places);
      Batch words;
      Weights::load_batch(words, base, places, batch * (kBatchSteps / 2));
      start_batch(products, base, words, 0, batch, zeros);
      wait_products<1>();
      if constexpr (kScalesGroups) {
        if (begins && batch > 0) scale_products<Scaling>(sums, products, 1, {scales.of[2], scales.of[3]});
      }
      if (ends) Weights::load_scales(scales, base + scales_at + group * Boxes::kHalfScaleBytes, places);
      start_batch(products, base, words, 1, batch, zeros);
      wait_products<1>();
      if constexpr (kScalesGroups) {
        if (ends) scale_products<Scaling>(sums, products, 0, {scales.of[0], scales.of[1]});
      }
    }
    wait_products<0>();
    if constexpr (kScalesGroups) scale_products<Scaling>(sums, products, 1, {scales.of[2], scales.of[3]});
    __syncwarp();
    if (elect_one()) arrive(ring.empty(place));
    place.advance();
  }
  if constexpr (Scaling::kScalesEnd) {
    scale_products<Scaling>(sums, products, 0, {scales.of[0], scales.of[1]});
    scale_products<Scaling>(sums, products, 1, {scales.of[2], scales.of[3]});
  } else if constexpr (!kScalesGroups) {
#pragma unroll
    for (int i = 0; i < 8 * kRowTiles; ++i) sums[i / 8][i / 4 % 2][i % 4] = products[i / 8][i / 4 % 2][i % 4];
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__((plan::kWarps + plan::kProducerWarps) * 32, plan::kBlocksPerSm)
    gemm(const __grid_constant__ cubit::Arguments args) {
  using namespace cubit;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Ring ring{shared_address(shared)};
  allow_next_kernel();
  if (threadIdx.x == 0) {
    prefetch_map(args.weight_map);
    prefetch_map(args.activation_map);
    args.Weights::Maps::prefetch();
    if (plan::kReorders) prefetch_map(args.in_order(args.activation_map));
  }
  ring.init_barriers();
  wait_for_previous_kernel();
  __syncthreads();
  const bool is_clustered = kCanCluster && args.clustered;
  if (is_clustered) arrive_in_cluster();
  if (warp_index() >= plan::kWarps) {
    give_registers<plan::kProducerRegisters>();
    if (warp_index() == plan::kWarps) {
      const StagePlace end = copy_stages(args, ring);
      if (is_clustered) {
        wait_for_cluster();
        if (elect_one()) release_stages(ring, end, plan::kStages, ring.cluster_barriers(0).free);
      }
    } else {
      reorder_stages<Activations>(args, ring);
      if (is_clustered) wait_for_cluster();
    }
    return;
  }
  take_registers<plan::kConsumerRegisters>();
  StagePlace place;
  plan::Scheduler scheduler(args);
  WorkTile work_tile = first_work_tile(args, scheduler);
  Reordered(args).reorder_own();
#pragma unroll 1
  do {
    Sums sums = {};
    multiply_stages<plan::Scaling>(work_tile, ring, place, sums[0]);
    if (is_clustered) {
      wait_for_cluster();
      merge_cluster(args, work_tile, ring.base, ring.cluster_barriers(warp_index()), sums);
      break;
    }
    finish_work_tile(args, scheduler, work_tile, ring.base + plan::kUpSumsAt, sums);
  } while (scheduler.next(work_tile));
}
