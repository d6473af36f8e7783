// Warp-specialised GEMM for sm_90a with narrow blocks (tile_n columns instead of 256): TMA box copies that
// complete on mbarriers, setmaxnreg, and mma.sync.
//
// The formula and the method are those of sm80_gemm.cuh with intra-block split-K: each consumer warp has all rows
// and columns of the block, and the warps divide the stages along k. The differences are:
//
// - A block computes all of k. If there are few tiles and the plan allows it (plan::kSplitsK), several blocks also
//   divide k into split-K slices; see merge_fragment.
// - Producer warps. Four additional warps are launched, of which one, two or four copy: box copies of words,
//   activations and scales, and 4-byte cp.async copies of zeros. All stages are in one ring. Consumer warp t computes
//   the block's stages t, t + kPartitionsK, …, and producer warp w copies stages w, w + kProducerWarps, … A single
//   producer warp would take longer for a stage of few columns than eight consumer warps do. TMA fills whatever lies
//   outside a tensor with zeros.
// - A consumer warp selects the activation pairs of a quantisation group once for all strips. It then multiplies one
//   strip after another, so that only the sums occupy registers for all strips.
//
// Shared memory:
//   stages { words: boxes of 32 columns, or by n of all neighbouring columns | activations of the first 64 values along
//            k, of the second 64 }
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
// Roles that the plan chooses: plan::Format, see w4_copied_words.cuh; plan::Epilogue, as in family sm80.
//
// PTX ISA: "cp.async.bulk.tensor", "mbarrier", "setmaxnreg", and the sections named in sm80_gemm.cuh.
#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/mma.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"
#include "weight_format/packed_gemm_arguments.h"
#include "weight_format/w4_values.cuh"

namespace cubit {

constexpr bool kWholeK = plan::kGroup == 0;  // one quantisation group spans all of k; every stage has its factors
constexpr int kStageGroups = kWholeK ? 1 : gemm_lanes::kStageK / plan::kGroup;
constexpr int kGroupSteps = gemm_lanes::kStageK / gemm_lanes::kStepK / kStageGroups;
constexpr int kHalves = plan::Epilogue::kGated ? 2 : 1;  // halves of neighbouring columns: gate and up projection
constexpr int kHalfColumns = plan::kTileN / kHalves;
constexpr uint32 kHalfScales = 2 * kHalfColumns;         // bytes per group
constexpr uint32 kHalfActivations = 128 * plan::kTileM;  // bytes of 64 values along k
constexpr uint32 kWordBytes = gemm_lanes::kStageK * plan::kTileN / 2;
// Columns per box of words. By k a box has one strip. By n, where a strip's row is 16 bytes, a box has all neighbouring
// columns.
constexpr int kWordBoxColumns = Format::kWordK == 1 ? kHalfColumns : gemm_lanes::kStripColumns;
constexpr int kBoxes = plan::kTileN / kWordBoxColumns;
constexpr int kZeroBytes = plan::kTileN / 2;  // bytes per group
// The four producer warps, idle ones included, form a warpgroup, because setmaxnreg applies to whole warpgroups.
constexpr int kThreads = (plan::kPartitionsK + 4) * kWarpSize;
// Number of steps of 32 values along k whose activation pairs a warp keeps in registers for all strips. Next to the
// sums of seven strips and 16 rows there is room for two.
constexpr int kHeldSteps = plan::kTileN * plan::kTileM > 160 * 16 && kGroupSteps > 2 ? 2 : kGroupSteps;
// Each place in the ring belongs to one consumer warp.
constexpr bool kSameWarps = plan::kStages % plan::kPartitionsK == 0;
static_assert(plan::kStages >= plan::kPartitionsK && plan::kStages % plan::kProducerWarps == 0);
static_assert(kSameWarps || plan::kPartitionsK % plan::kProducerWarps == 0);  // see "Who waits for whom"
static_assert(kHalves == 1 || kStageGroups * kHalfScales % 128 == 0);  // boxes must begin at multiples of 128 bytes

/// Kernel arguments with tensor maps. Dimensions of the maps, the contiguous one last: words [rows of words][words],
/// activations [m][k], scales [groups][n].
struct Arguments : PackedGemmArguments {
  TensorMap word_map;
  TensorMap activation_map;
  TensorMap scale_map;
};

/// Place in the ring and phase of its barriers, in one register; advance<kCount>() moves kCount stages on.
struct StagePlace {
  int number;  // index in two rounds of the ring

  __device__ __forceinline__ uint32 parity() const { return number >= plan::kStages ? 1 : 0; }
  __device__ __forceinline__ int index() const { return number - (number >= plan::kStages ? plan::kStages : 0); }
  template <int kCount>
  __device__ __forceinline__ void advance() {
    number += kCount;
    if (number >= 2 * plan::kStages) number -= 2 * plan::kStages;
  }
};

/// Shared-memory addresses of the stages and the mbarriers.
struct Ring {
  uint32 base;

  __device__ __forceinline__ uint32 stage(StagePlace place) const { return base + place.index() * plan::kStageBytes; }
  /// Address of a stage's scales; its zeros are kZerosAt further on.
  __device__ __forceinline__ uint32 factors(StagePlace place) const {
    return base + plan::kFactorsAt + place.index() * plan::kFactorBytes;
  }
  __device__ __forceinline__ uint32 full(StagePlace place) const { return barrier(place.index()); }
  __device__ __forceinline__ uint32 empty(StagePlace place) const { return barrier(place.index()) + 8; }

  /// Initialises the mbarriers of one place; one thread calls the function.
  __device__ __forceinline__ void init_barriers(StagePlace place) const {
    init_barrier(full(place), plan::kStoredZeros ? 1 + kWarpSize : 1);
    init_barrier(empty(place), 1);
  }

 private:
  __device__ __forceinline__ uint32 barrier(int stage) const {
    return base + plan::kBarriersAt + gemm_lanes::kStageBarrierBytes * stage;
  }
};

/// Starts the box copies of a stage: words, activations and scales. One thread calls the function.
__device__ __forceinline__ void copy_boxes(const Arguments& args, const WorkTile& work_tile, int stage, uint32 dst,
                                           uint32 factors, uint32 full) {
  expect_bytes(full, kWordBytes + 2 * kHalfActivations + kStageGroups * kHalves * kHalfScales);
  const int first = work_tile.column_tile * kHalfColumns;
  // First column of a half. With a gated epilogue, the second half has the up-projection columns.
  const auto column_of = [&](int half) { return first + half * (args.n / 2); };
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    constexpr int kColumnsPerWord = 8 / Format::kWordK;
    constexpr int kHalfBoxes = kBoxes / kHalves;
    const int column = column_of(i / kHalfBoxes) + i % kHalfBoxes * kWordBoxColumns;
    copy_box(dst + i * (kWordBytes / kBoxes), args.word_map, column / kColumnsPerWord, stage * Format::kWordRows, full);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    copy_box(dst + plan::kActivationsAt + half * kHalfActivations, args.activation_map,
             stage * gemm_lanes::kStageK + 64 * half, work_tile.row_tile * plan::kTileM, full);
  }
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    copy_box(factors + half * kStageGroups * kHalfScales, args.scale_map, column_of(half),
             kWholeK ? 0 : stage * kStageGroups, full);
  }
}

/// Copies the zeros of a producer warp's stages, one stage after another. A lane copies a word of 8 columns per group.
class ZeroCopies {
 public:
  __device__ __forceinline__ ZeroCopies(const Arguments& args, const WorkTile& work_tile, int stage) {
    is_lane_ = lane_index() < plan::kTileN / 8;
    const int column = is_lane_ ? weight_column(args, work_tile.column_tile, 8 * lane_index()) : -1;
    exists_ = column >= 0;
    row_bytes_ = args.n / 2;
    const int first = kWholeK ? 0 : stage * kStageGroups;
    groups_left_ = args.k / (kWholeK ? 1 : plan::kGroup) - first;
    src_ = static_cast<const char*>(args.qzeros) + first * row_bytes_ + max(0, column) / 2;
  }

  /// Copies the zeros of the next stage.
  __device__ __forceinline__ void copy(uint32 dst) {
    if (is_lane_) {
#pragma unroll
      for (int i = 0; i < kStageGroups; ++i) {
        const uint32 own = dst + i * kZeroBytes + 4 * lane_index();
        const bool valid = exists_ && (kStageGroups == 1 || i < groups_left_);
        copy_async<4>(own, src_ + i * row_bytes_, valid);  // access: cp.async of zeros
      }
    }
    if constexpr (kWholeK) return;
    src_ += plan::kProducerWarps * kStageGroups * row_bytes_;
    groups_left_ -= plan::kProducerWarps * kStageGroups;
  }

 private:
  const char* src_;  // source of the lane's zeros in the next stage
  int64 row_bytes_;  // bytes per group
  int groups_left_;  // groups from the next stage on
  bool is_lane_;
  bool exists_;
};

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
  if constexpr (plan::kStoredZeros) {
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

/// sums += the scaled products of one strip and one quantisation group.
__device__ __forceinline__ void add_strip(RowSums (&sums)[kRowTiles], uint32 words_at, uint32 factors, int strip,
                                          int group, const Format::NarrowPlaces& places, uint32 activations_at,
                                          const uint32 (&held)[kHeldSteps][kRowTiles][4]) {
  GroupZeros zeros;
  Format::load_zeros(zeros, factors + plan::kZerosAt + group * kZeroBytes + strip * (kZeroBytes / kBlockStrips),
                     places);
  RowSums products[kRowTiles] = {};
#pragma unroll
  for (int step = 0; step < kGroupSteps; ++step) {
    Format::Words<1> words;
    Format::load_narrow_words(words, words_at, strip, group * kGroupSteps + step);
    uint32 again[kRowTiles][4];
    if (step >= kHeldSteps) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t)
        Format::load_narrow_activations<true>(again[t], activations_at, t, group * kGroupSteps + step);
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
        mma_m16n8k16<Element>(products[t][tile], a[0], a[1], a[2], a[3], pairs(2 * product), pairs(2 * product + 1));
      }
    }
  }
  constexpr int kHalfStrips = kBlockStrips / kHalves;
  const uint32 scales_at = strip / kHalfStrips * kStageGroups * kHalfScales + group * kHalfScales +
                           strip % kHalfStrips * (2 * gemm_lanes::kStripColumns);
  GroupScales scales;
  Format::load_scales(scales, factors + scales_at, places);
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[t][i / 4][i % 4] += scales.of[i / 2] * products[t][i / 4][i % 4];
  }
}

/// Main loop of a consumer warp: adds the products of its stages of the work tile to `sums`.
__device__ __forceinline__ void multiply_stages(const WorkTile& work_tile, Ring ring, Sums& sums) {
  const auto places = Format::narrow_places();
  StagePlace place{warp_index()};
#pragma unroll 1
  for (int left = work_tile.last - work_tile.first - warp_index(); left > 0; left -= plan::kPartitionsK) {
    // Wait for the use of the place's previous contents; see "Who waits for whom".
    if constexpr (!kSameWarps) wait_barrier(ring.empty(place), place.parity() ^ 1);
    wait_barrier(ring.full(place), place.parity());
    const uint32 words_at = settled(ring.stage(place) + places.words);
    const uint32 activations_at = ring.stage(place) + plan::kActivationsAt + places.activations;
    const uint32 factors = settled(ring.factors(place));
#pragma unroll
    for (int group = 0; group < kStageGroups; ++group) {
      uint32 b[kHeldSteps][kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kHeldSteps; ++i) {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
          Format::load_narrow_activations<false>(b[i][t], activations_at, t, group * kGroupSteps + i);
      }
#pragma unroll
      for (int strip = 0; strip < kBlockStrips; ++strip)
        add_strip(sums[strip], words_at, factors, strip, group, places, activations_at, b);
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
