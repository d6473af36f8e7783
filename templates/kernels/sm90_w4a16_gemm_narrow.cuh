// Weight-only 4-bit matrix multiplication, on the words of a checkpoint as they are.
// Family sm90, blocks of few columns (tile_n): copies of boxes by tensor maps (TMA), transaction barriers, setmaxnreg,
// mma.sync; sm_90a.
//
// What is computed, and how: as in sm80_w4a16_gemm.cuh, where a block has few columns. Its warps are teams of one, as
// there: each has all rows and columns of the block. What differs:
//
// - A block has all of k, or where tiles are few and the plan says so (plan::kSharesK) a part: see merge_fragment.
// - Four more warps, or one or two of the four, do nothing but copy: boxes of words, activations and scales, zeros 4
//   bytes per lane. All stages are in one ring. Team t has the block's stages t, t + kTeams, …, and copying warp w
//   stages w, w + kCopyWarps, …: one alone would take longer for a stage of few columns than eight teams. What is
//   outside a tensor arrives as zeros.
// - A team picks the pairs of activations of a group once, for all of its strips of columns; of these one after another
//   has its products, so that only sums take registers of all strips.
//
// Shared memory: stages { words: boxes of 32 columns, by n of all that are neighbours | activations: of the first 64
// k's, of the second }, on kFactorsAt of each stage { scales | zeros }, on kBarriersAt the barriers of the stages,
// `full` and `empty`; on kUpsAt, or where that does not fit after the last stage where the first ones were, the sums of
// the teams.
//
// Who waits for whom: a copying warp until the team of the stage that was there has arrived at `empty`; a stage's team
// until the copies have arrived at `full`. A parity tells one phase from the next, not from the one after that, so
// nobody may be two phases ahead. Where kStages is a multiple of kTeams a place has the same team each time, and that
// is enough. Else a team waits for `empty` as well: a place of the ring has one copying warp, which is never ahead of
// itself, and all stages of a team have one: before the team's last stage it has copied what was in the place before,
// for which it has seen that what was there before that was used.
//
// How fast a block may copy: if all fill their rings as fast as they can, their first stages come later, and some
// blocks get ahead of others. So a copying warp asks once more for what it has waited for, kRests times, which takes
// time and nothing else. See docs/performance/w4a16_gemm.md.
//
// The kernel before in the stream, where the launch overlaps with it, is waited for before anything is read.
//
// Roles that the plan chooses: plan::Format, see w4_copied_words.cuh; plan::Epilogue as in family sm80.
//
// PTX ISA: "cp.async.bulk.tensor", "mbarrier", "setmaxnreg", and those of sm80_w4a16_gemm.cuh.
#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/mma.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "gemm/w4a16_gemm_block.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "kernels/w4a16_gemm_arguments.h"
#include "weight_format/w4_values.cuh"

namespace cubit {

constexpr bool kWholeK = plan::kGroup == 0;  // one group, whose scales and zeros every stage has
constexpr int kStageGroups = kWholeK ? 1 : gemm_lanes::kStageK / plan::kGroup;
constexpr int kGroupSteps = gemm_lanes::kStageK / gemm_lanes::kStepK / kStageGroups;
constexpr int kHalves = plan::Epilogue::kGated ? 2 : 1;  // of the columns, which are neighbours
constexpr int kHalfColumns = plan::kTileN / kHalves;
constexpr uint32 kHalfScales = 2 * kHalfColumns;         // bytes of a group
constexpr uint32 kHalfActivations = 128 * plan::kTileM;  // bytes of 64 k's
constexpr uint32 kWordBytes = gemm_lanes::kStageK * plan::kTileN / 2;
// Of words: by k of a strip, by n, where a strip's row is 16 bytes, of all columns that are neighbours.
constexpr int kWordBoxColumns = Format::kWordK == 1 ? kHalfColumns : gemm_lanes::kStripColumns;
constexpr int kBoxes = plan::kTileN / kWordBoxColumns;
constexpr int kZeroBytes = plan::kTileN / 2;              // of a group
constexpr int kThreads = (plan::kTeams + 4) * kWarpSize;  // a whole warpgroup copies or is idle: it gives registers
// Steps of 32 k's whose pairs of activations a team has in registers for all strips: sums of seven strips and of 16
// rows leave room for two.
constexpr int kHeldSteps = plan::kTileN * plan::kTileM > 160 * 16 && kGroupSteps > 2 ? 2 : kGroupSteps;
constexpr bool kSameWarps = plan::kStages % plan::kTeams == 0;  // in a place of the ring
static_assert(plan::kStages >= plan::kTeams && plan::kStages % plan::kCopyWarps == 0);
static_assert(kSameWarps || plan::kTeams % plan::kCopyWarps == 0);     // see "Who waits for whom"
static_assert(kHalves == 1 || kStageGroups * kHalfScales % 128 == 0);  // where a box may begin

/// The maps' dimensions: [rows of words][words], [m][k], [groups][n]; the last is contiguous.
struct Arguments : W4a16GemmArguments {
  TensorMap word_map;
  TensorMap activation_map;
  TensorMap scale_map;
};

/// A place in the ring, some stages further on each time; in one register.
struct StagePlace {
  int number;  // of two rounds

  __device__ __forceinline__ uint32 parity() const { return number >= plan::kStages ? 1 : 0; }
  __device__ __forceinline__ int index() const { return number - (number >= plan::kStages ? plan::kStages : 0); }
  template <int kCount>
  __device__ __forceinline__ void advance() {
    number += kCount;
    if (number >= 2 * plan::kStages) number -= 2 * plan::kStages;
  }
};

/// Addresses in shared memory.
struct Ring {
  uint32 base;

  __device__ __forceinline__ uint32 stage(StagePlace place) const { return base + place.index() * plan::kStageBytes; }
  /// Scales, and on kZerosAt zeros.
  __device__ __forceinline__ uint32 factors(StagePlace place) const {
    return base + plan::kFactorsAt + place.index() * plan::kFactorBytes;
  }
  __device__ __forceinline__ uint32 full(StagePlace place) const { return barrier(place.index()); }
  __device__ __forceinline__ uint32 empty(StagePlace place) const { return barrier(place.index()) + 8; }

  /// By one thread.
  __device__ __forceinline__ void init_barriers(StagePlace place) const {
    init_barrier(full(place), plan::kStoredZeros ? 1 + kWarpSize : 1);
    init_barrier(empty(place), 1);
  }

 private:
  __device__ __forceinline__ uint32 barrier(int stage) const {
    return base + plan::kBarriersAt + gemm_lanes::kStageBarrierBytes * stage;
  }
};

/// By one thread: words, activations and scales of a stage of k.
__device__ __forceinline__ void copy_boxes(const Arguments& args, const WorkTile& work_tile, int stage, uint32 dst,
                                           uint32 factors, uint32 full) {
  expect_bytes(full, kWordBytes + 2 * kHalfActivations + kStageGroups * kHalves * kHalfScales);
  const int first = work_tile.column_tile * kHalfColumns;
  // Gated, the second half is of other columns.
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

/// The zeros of a copying warp's stages, one after another: a lane takes a word of 8 columns of each group.
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

  /// The next stage's.
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
    src_ += plan::kCopyWarps * kStageGroups * row_bytes_;
    groups_left_ -= plan::kCopyWarps * kStageGroups;
  }

 private:
  const char* src_;  // of the next stage, the lane's
  int64 row_bytes_;  // of a group
  int groups_left_;  // from the next stage on
  bool is_lane_;
  bool exists_;
};

/// The teams know of the barriers that copying warps have made, which need not wait for the teams.
__device__ __forceinline__ void announce_barriers() { asm volatile("bar.arrive 2, %0;" ::"n"(kThreads) : "memory"); }
__device__ __forceinline__ void wait_for_barriers() { asm volatile("bar.sync 2, %0;" ::"n"(kThreads) : "memory"); }

/// A stage of k, by all lanes of a copying warp. kMakesBarriers: those of its place first.
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

/// The warps that copy, a stage each in turn: of small stages one would not be fast enough. Each makes the barriers of
/// its places, one lane all of them, because lanes that made one each would take turns at it; the first stage is on its
/// way before the others' are made, and before the teams know of any.
__device__ __forceinline__ void copy_stages(const Arguments& args, const WorkTile& work_tile, Ring ring) {
  const int warp = warp_index() - plan::kTeams;
  if (warp >= plan::kCopyWarps) {
    announce_barriers();
    return;
  }
  StagePlace place{warp};
  int stage = work_tile.first + warp;
  ZeroCopies zeros(args, work_tile, stage);
  if (stage < work_tile.last) copy_stage<true>(args, work_tile, stage, ring, place, zeros);
  if (elect_one()) {
#pragma unroll
    for (int i = plan::kCopyWarps; i < plan::kStages; i += plan::kCopyWarps) ring.init_barriers(StagePlace{warp + i});
  }
  __syncwarp();
  announce_barriers();
#pragma unroll 1
  for (stage += plan::kCopyWarps; stage < work_tile.last; stage += plan::kCopyWarps) {
    place.advance<plan::kCopyWarps>();
#pragma unroll 1
    for (int i = 0; i <= plan::kRests; ++i) {
      wait_barrier(ring.empty(place), place.parity() ^ 1);  // the first time round at once
    }
    copy_stage<false>(args, work_tile, stage, ring, place, zeros);
  }
  wait_copies<0>();
}

/// sums += those of a strip's products with a group.
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
    for (int item = 0; item < 4; ++item) {  // of two products and tiles
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

/// A team's stages of a piece.
__device__ __forceinline__ void multiply_stages(const WorkTile& work_tile, Ring ring, Sums& sums) {
  const auto places = Format::narrow_places();
  StagePlace place{warp_index()};
#pragma unroll 1
  for (int left = work_tile.last - work_tile.first - warp_index(); left > 0; left -= plan::kTeams) {
    if constexpr (!kSameWarps) wait_barrier(ring.empty(place), place.parity() ^ 1);  // of the stage that was there
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
    place.advance<plan::kTeams>();
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(cubit::kThreads, plan::kBlocksPerSm)
    w4a16_gemm(const __grid_constant__ cubit::Arguments args) {
  using namespace cubit;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Ring ring{shared_address(shared)};
  allow_next_kernel();
  wait_for_previous_kernel();
  const WorkTile work_tile = work_tile_of_block(args);
  if (warp_index() >= plan::kTeams) {
    give_registers<plan::kCopyRegisters>();
    copy_stages(args, work_tile, ring);
    return;
  }
  wait_for_barriers();
  take_registers<plan::kMultiplyRegisters>();
  Sums sums = {};
  multiply_stages(work_tile, ring, sums);
  merge_warps<plan::kSumsApart, plan::kSharesK>(args, work_tile, ring.base + (plan::kSumsApart ? plan::kUpsAt : 0),
                                                sums);
}
