// Warp-specialised GEMM for sm_90a with narrow blocks (tile_n columns instead of 256): TMA box copies that complete on
// mbarriers, setmaxnreg, and mma.sync.
//
// The formula and the method are those of sm80_gemm.cuh with intra-block split-K: each consumer warp has all rows and
// columns of the block, and the warps divide the stages along k. The differences are:
//
// - A block computes all of k. If there are few tiles and the plan allows it (plan::kSplitsK), several blocks also
//   divide k into split-K slices; see merge_fragment.
// - Producer warps. Four additional warps are launched, of which one, two or four copy: box copies of weights,
//   activations and scales, and 4-byte cp.async copies of zeros. All stages are in one ring. Consumer warp t computes
//   the block's stages t, t + kPartitionsK, …, and producer warp w copies stages w, w + kProducerWarps, … A single
//   producer warp would take longer for a stage of few columns than eight consumer warps do. TMA fills whatever lies
//   outside a tensor with zeros.
// - A consumer warp selects the activation pairs of a quantisation group once for all strips. It then multiplies one
//   strip after another, so that only the sums occupy registers for all strips.
//
// Shared memory:
//   stages { weights: boxes as the weight operand says | activations in parts of 128 bytes along k }
//   kFactorsAt   for each stage { scales | zeros }
//   kBarriersAt  for each stage the mbarriers `full` and `empty`
//   kSumsAt      partial sums of the consumer warps; if they do not fit there, they overwrite the stages at the end
//
// Who waits for whom: a producer warp waits at `empty` until the consumer warp of the stage's previous contents has
// arrived. A consumer warp waits at `full` until the copies are complete.
//
// A parity distinguishes a phase from the next phase, but not from the phase after that. So no warp may be two phases
// ahead. If kStages is a multiple of kPartitionsK, every place in the ring belongs to one consumer warp, and the two
// waits above suffice. Otherwise a consumer warp first waits at `empty` until the place's previous contents have been
// read, and then at `full`. This suffices for the following reason. Let consumer warp t wait for stage s, which lies in
// place p. kPartitionsK and kStages are multiples of kProducerWarps, so the stages of t and the contents of p all come
// from one producer warp, which copies in order. Warp t has read its previous stage, s - kPartitionsK. Because kStages
// is at least kPartitionsK, the producer warp had by then copied stage s - kStages into p. Before that copy it had
// waited until stage s - 2 kStages had been read. So at most one phase of `empty` and one phase of `full` of place p
// are outstanding, and the parities are unambiguous.
//
// Producer throttling: if all blocks fill their rings as fast as they can, their first stages arrive later, and some
// blocks get ahead of other blocks. A producer warp therefore repeats its wait kProducerPauses times, which costs time
// and has no other effect. Measurements: bench/notes/w4a16_gemm.md, "Producer throttling".
//
// If the launch overlaps with the preceding kernel of the stream, the kernel waits for its predecessor before reading
// anything.
//
// Roles that the plan chooses: plan::Weights, see w4_copied_words.cuh; plan::Activations, plan::Product, plan::Scaling
// and plan::Epilogue, as in sm80_gemm.cuh.
//
// PTX ISA: "cp.async.bulk.tensor", "mbarrier", "setmaxnreg", and the sections named in sm80_gemm.cuh.
#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"
#include "gemm/split_k_merge.cuh"
#include "kernels/gemm/gemm_arguments.h"
#include "pipeline/stage_ring.cuh"

namespace cubit {

constexpr int kStageGroups = Weights::kStageGroups;
constexpr int kGroupSteps = kStageSteps / kStageGroups;
// The four producer warps, idle ones included, form a warpgroup, because setmaxnreg applies to whole warpgroups.
constexpr int kThreads = (plan::kPartitionsK + 4) * kWarpSize;
// Number of steps whose activation pairs a warp keeps in registers for all strips. Next to the sums of seven strips and
// 16 rows there is room for two.
constexpr int kHeldSteps = plan::kTileN * plan::kTileM > 160 * 16 && kGroupSteps > 2 ? 2 : kGroupSteps;
// Each place in the ring belongs to one consumer warp.
constexpr bool kSameWarps = plan::kStages % plan::kPartitionsK == 0;
static_assert(plan::kStages >= plan::kPartitionsK && plan::kStages % plan::kProducerWarps == 0);
static_assert(kSameWarps || plan::kPartitionsK % plan::kProducerWarps == 0);  // see "Who waits for whom"

/// The columns of a block. With a gated epilogue, the second half has the up-projection columns.
struct BoxColumns {
  static constexpr int kHalves = plan::Epilogue::kGated ? 2 : 1;
  static constexpr int kHalfColumns = plan::kTileN / kHalves;

  static __device__ __forceinline__ int first_column(const GemmArguments& args, const WorkTile& work_tile, int half) {
    return work_tile.column_tile * kHalfColumns + half * (args.n / 2);
  }
  static __device__ __forceinline__ int weight_column(const GemmArguments& args, int column_tile, int place) {
    return cubit::weight_column(args, column_tile, place);
  }
};
using Boxes = Weights::NarrowBoxes<BoxColumns>;
using ZeroCopies = Boxes::ZeroCopies<plan::kProducerWarps>;
using StagePlace = RoundPlace<plan::kStages>;

/// Kernel arguments with tensor maps. Dimensions of the maps, the contiguous one last: weights, see the weight operand;
/// activations [m][k].
struct BoxArguments : Weights::Arguments {
  TensorMap weight_map;
  TensorMap activation_map;
};
struct Arguments : BoxArguments, Weights::Maps {};

/// Shared-memory addresses of the stages and the mbarriers.
struct Ring : StageRing<plan::kStageBytes, plan::kBarriersAt, gemm_lanes::kStageBarrierBytes> {
  /// Address of a stage's scales; its zeros are kZerosAt further on.
  __device__ __forceinline__ uint32 factors(StagePlace place) const {
    return base + plan::kFactorsAt + place.index() * plan::kFactorBytes;
  }

  /// Initialises the mbarriers of one place; one thread calls the function.
  __device__ __forceinline__ void init_barriers(StagePlace place) const {
    init_barrier(full(place), Boxes::kArrivals);
    init_barrier(empty(place), 1);
  }
};

/// Starts the box copies of a stage: weights, activations and scales. One thread calls the function.
__device__ __forceinline__ void copy_boxes(const Arguments& args, const WorkTile& work_tile, int stage, uint32 dst,
                                           uint32 factors, uint32 full) {
  expect_bytes(full, Boxes::kBytes + kStageParts * kPartActivations);
  Boxes::load_words(args, work_tile, stage, dst, full);
#pragma unroll
  for (int part = 0; part < kStageParts; ++part) {
    copy_box(dst + plan::kActivationsAt + part * kPartActivations, args.activation_map, stage * kStageK + kPartK * part,
             work_tile.row_tile * plan::kTileM, full);
  }
#pragma unroll
  for (int half = 0; half < BoxColumns::kHalves; ++half)
    Boxes::load_scales(args, work_tile, stage, half, factors, full);
}

/// Named barrier that tells the consumer warps that the mbarriers are initialised. The producer warps arrive and do not
/// wait.
__device__ __forceinline__ void announce_barriers() { asm volatile("bar.arrive 2, %0;" ::"n"(kThreads) : "memory"); }
__device__ __forceinline__ void wait_for_barriers() { asm volatile("bar.sync 2, %0;" ::"n"(kThreads) : "memory"); }

/// Copies a stage; all lanes of a producer warp call the function. kMakesBarriers: the function first initialises the
/// mbarriers of the stage's place.
template <bool kMakesBarriers>
__device__ __forceinline__ void copy_stage(const Arguments& args, const WorkTile& work_tile, int stage, Ring ring,
                                           StagePlace place, ZeroCopies& zeros) {
  const uint32 full = ring.full(place);
  if (elect_one()) {
    if constexpr (kMakesBarriers) ring.init_barriers(place);
    copy_boxes(args, work_tile, stage, ring.stage(place), ring.factors(place), full);
  }
  __syncwarp();
  if constexpr (Weights::kCopiesZeros) {
    zeros.copy(ring.factors(place) + plan::kZerosAt);
    arrive_after_copies(full);
  }
}

/// Loop of the producer warps, which take stages in turn; a single warp would be too slow for small stages. Each
/// producer warp initialises the mbarriers of its own places. One lane initialises all of them, because several lanes
/// would take turns anyway. The first copies start before the remaining mbarriers are initialised, and before the
/// consumer warps may use any mbarrier.
__device__ __forceinline__ void copy_stages(const Arguments& args, const WorkTile& work_tile, Ring ring) {
  const int warp = warp_index() - plan::kPartitionsK;
  if (warp >= plan::kProducerWarps) {
    announce_barriers();
    return;
  }
  StagePlace place{warp};
  int stage = work_tile.first + warp;
  ZeroCopies zeros(args, work_tile, stage);
  if (stage < work_tile.last) copy_stage<true>(args, work_tile, stage, ring, place, zeros);
  if (elect_one()) {
#pragma unroll
    for (int i = plan::kProducerWarps; i < plan::kStages; i += plan::kProducerWarps)
      ring.init_barriers(StagePlace{warp + i});
  }
  __syncwarp();
  announce_barriers();
#pragma unroll 1
  for (stage += plan::kProducerWarps; stage < work_tile.last; stage += plan::kProducerWarps) {
    place.advance<plan::kProducerWarps>();
#pragma unroll 1
    for (int i = 0; i <= plan::kProducerPauses; ++i) {
      wait_barrier(ring.empty(place), place.parity() ^ 1);  // returns at once in the first round
    }
    copy_stage<false>(args, work_tile, stage, ring, place, zeros);
  }
  wait_copies<0>();
}

/// sums += the products of one strip and one quantisation group, scaled unless all products are scaled at the end.
template <class Scaling>
__device__ __forceinline__ void add_strip(RowSums (&sums)[kRowTiles], uint32 words_at, uint32 factors, int strip,
                                          int group, const Weights::FactorPlaces& places, uint32 activations_at,
                                          const uint32 (&held)[kHeldSteps][kRowTiles][4]) {
  Weights::Zeros zeros;
  Weights::load_zeros(
      zeros, factors + plan::kZerosAt + group * Boxes::kZeroBytes + strip * (Boxes::kZeroBytes / kBlockStrips), places);
  RowProducts products[kRowTiles] = {};
#pragma unroll
  for (int step = 0; step < kGroupSteps; ++step) {
    Weights::Batch<1> words;
    Weights::load_narrow_words(words, words_at, strip, group * kGroupSteps + step);
    uint32 again[kRowTiles][4];
    if (step >= kHeldSteps) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t)
        Activations::load_narrow<true>(again[t], activations_at, t, group * kGroupSteps + step);
    }
#pragma unroll
    for (int item = 0; item < 4; ++item) {  // two products of two tiles
      const int product = item / 2;
      const int tile = item % 2;
      uint32 a[4];
      words.operand(a, product, tile, zeros);
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        const auto pairs = [&](int i) { return step < kHeldSteps ? held[step % kHeldSteps][t][i] : again[t][i]; };
        plan::Product::multiply(products[t][tile], a, pairs(2 * product), pairs(2 * product + 1));
      }
    }
  }
  if constexpr (Scaling::kScalesGroups || Scaling::kScalesEnd) {
    constexpr int kHalfStrips = kBlockStrips / BoxColumns::kHalves;
    const uint32 scales_at = strip / kHalfStrips * kStageGroups * Boxes::kHalfScaleBytes +
                             group * Boxes::kHalfScaleBytes + strip % kHalfStrips * (2 * gemm_lanes::kStripColumns);
    Weights::Scales scales;
    Weights::load_scales(scales, factors + scales_at, places);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) Scaling::add(sums[t], products[t], scales);
  } else {
#pragma unroll
    for (int i = 0; i < 8 * kRowTiles; ++i) sums[i / 8][i / 4 % 2][i % 4] += products[i / 8][i / 4 % 2][i % 4];
  }
}

/// Main loop of a consumer warp: adds the products of its stages of the work tile to `sums`.
__device__ __forceinline__ void multiply_stages(const WorkTile& work_tile, Ring ring, Sums& sums) {
  uint32 words_place = Weights::narrow_place();
  uint32 activations_place = Activations::narrow_place();
  const auto factor_places = Weights::factor_places(lane_index(), 0);
  words_place = settled(words_place);
  activations_place = settled(activations_place);
  StagePlace place{warp_index()};
#pragma unroll 1
  for (int left = work_tile.last - work_tile.first - warp_index(); left > 0; left -= plan::kPartitionsK) {
    // Wait for the use of the place's previous contents; see "Who waits for whom".
    if constexpr (!kSameWarps) wait_barrier(ring.empty(place), place.parity() ^ 1);
    wait_barrier(ring.full(place), place.parity());
    const uint32 words_at = settled(ring.stage(place) + words_place);
    const uint32 activations_at = ring.stage(place) + plan::kActivationsAt + activations_place;
    const uint32 factors = settled(ring.factors(place));
#pragma unroll
    for (int group = 0; group < kStageGroups; ++group) {
      uint32 b[kHeldSteps][kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kHeldSteps; ++i) {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
          Activations::load_narrow<false>(b[i][t], activations_at, t, group * kGroupSteps + i);
      }
#pragma unroll
      for (int strip = 0; strip < kBlockStrips; ++strip)
        add_strip<plan::Scaling>(sums[strip], words_at, factors, strip, group, factor_places, activations_at, b);
    }
    __syncwarp();
    if (elect_one()) arrive(ring.empty(place));
    place.advance<plan::kPartitionsK>();
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(cubit::kThreads, plan::kBlocksPerSm)
    gemm(const __grid_constant__ cubit::Arguments args) {
  using namespace cubit;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Ring ring{shared_address(shared)};
  allow_next_kernel();
  wait_for_previous_kernel();
  const WorkTile work_tile = work_tile_of_block(args);
  if (warp_index() >= plan::kPartitionsK) {
    give_registers<plan::kProducerRegisters>();
    copy_stages(args, work_tile, ring);
    return;
  }
  wait_for_barriers();
  take_registers<plan::kConsumerRegisters>();
  Sums sums = {};
  multiply_stages(work_tile, ring, sums);
  merge_warps<plan::kSeparateSums, plan::kSplitsK>(args, work_tile,
                                                   ring.base + (plan::kSeparateSums ? plan::kSumsAt : 0), sums);
}
