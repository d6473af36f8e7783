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

#include "core/copies.cuh"
#include "core/mma.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "gemm/w4a16_gemm_block.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "kernels/w4a16_gemm_arguments.h"
#include "weight_format/w4_activation_order.cuh"
#include "weight_format/w4_values.cuh"

namespace cubit {

using plan::Copies;

constexpr int kThreads = plan::kWarps * kWarpSize;  // that share a ring of stages
constexpr int kWordRowBytes = Format::kWordRowBytes / (gemm_lanes::kBlockColumns / plan::kTileN);
constexpr int kScaleRowBytes = 2 * plan::kTileN;
constexpr int kZeroRowBytes = Format::kZeroBytes / (gemm_lanes::kBlockColumns / plan::kTileN);
constexpr bool kWholeK = plan::kGroup == 0;  // one group
constexpr bool kStagedFactors = !kWholeK && !plan::kActivationOrder;
constexpr int kStageGroups = !kStagedFactors ? 1 : gemm_lanes::kStageK / plan::kGroup;
constexpr bool kFullStages = plan::kGroup == gemm_lanes::kStageK;  // k is a multiple of a stage's
// With more rows, or beside copies in registers, the next group's loads beside this one's sums would spill, and so
// would a second way to copy a stage; words by n with 16 rows did with two groups.
constexpr bool kFewRegisters = kRowTiles > 2 || Copies::kHolds ||
                               (Format::kWordK == 1 && kRowTiles == 2 && kStageGroups == 2);
constexpr int kGroupSteps = gemm_lanes::kStageK / gemm_lanes::kStepK / kStageGroups;
constexpr int kUnrolledGroups = kFewRegisters ? 1 : kStageGroups;
// Likewise, beside copies in registers and with 64 rows, the loads of more than two steps.
constexpr int kUnrolledSteps = kGroupSteps > 2 && kRowTiles > 4 && Copies::kHolds ? 2 : kGroupSteps;

/// Of those that share a ring.
__device__ __forceinline__ uint32 ring_thread() {
  return kIntraBlockSplitK ? thread_index() % kWarpSize : thread_index();
}
__device__ __forceinline__ void sync_ring() {
  if constexpr (kIntraBlockSplitK) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

/// Starts the copies of stages, one after another: every thread takes pieces of the same columns in each. What does not
/// change from stage to stage is computed once.
class Fetcher {
 public:
  __device__ __forceinline__ Fetcher(const W4a16GemmArguments& args, const WorkTile& work_tile) : args_(args) {
    const int thread = static_cast<int>(ring_thread());
    const int first = work_tile.first * gemm_lanes::kStageK;
    const int first_row = work_tile.row_tile * plan::kTileM;
    k_left_ = args.k - first;

    const gemm_lanes::Place word = word_vector(0, thread);
    const int column = weight_column(args, work_tile.column_tile, thread % kWordVectors * kVectorColumns);
    has_words_ = column >= 0;
    words_ = static_cast<const char*>(args.qweight) + (first / Format::kWordK + word.row) * Format::row_bytes(args.n) +
             (has_words_ ? Format::word_byte(column) : 0);
#pragma unroll
    for (int i = 0; i < kPeriod; ++i) {
      const gemm_lanes::Place at = word_vector(i, thread);
      words_at_[i] = settled(plan::word_stage(at.row, at.byte));
    }

    const gemm_lanes::Place activation = activation_vector(0, thread);
    rows_ = args.m - first_row - activation.row;
    activation_k_ = activation.byte / 2;
    activations_ = static_cast<const char*>(args.activations) + (first_row + activation.row) * args.activation_stride +
                   2 * static_cast<int64>(first) + activation.byte;
#pragma unroll
    for (int i = 0; i < kActivationPeriod; ++i) {
      const gemm_lanes::Place at = activation_vector(i, thread);
      activations_at_[i] = settled(plan::kActivationsAt + plan::activation_stage(at.row, at.byte));
    }

    const int factor_column = weight_column(args, work_tile.column_tile, 8 * factor_lane());
    has_factors_ = factor_column >= 0;
    const int64 group = (kWholeK ? 0 : work_tile.first * static_cast<int64>(kStageGroups)) + factor_group();
    const int64 factor = group * args.n + max(0, factor_column);
    scales_ = static_cast<const char*>(args.scales) + 2 * factor;
    scales_at_ = settled(factor_group() * kScaleRowBytes + 16 * factor_lane());
    if constexpr (plan::kStoredZeros) {
      zeros_ = static_cast<const char*>(args.qzeros) + factor / kZeroColumns;
      zeros_at_ =
          settled(plan::kZerosAt - plan::kScalesAt + factor_group() * kZeroRowBytes + kZeroCopyBytes * factor_lane());
    }
  }

  /// The next stage.
  __device__ __forceinline__ void fetch(uint32 stage) {
    if (kFullStages || (!kFewRegisters && k_left_ >= gemm_lanes::kStageK)) {
      fetch_tensors<true>(stage);
    } else {
      fetch_tensors<false>(stage);
    }
    k_left_ -= gemm_lanes::kStageK;
  }

  /// What fetch has started last, into the stage; where copies are held.
  __device__ __forceinline__ void store(uint32 stage) const {
#pragma unroll
    for (int i = 0; i < kWordCopies; ++i) words_held_.store(i, stage + word_at(i));  // access: stores of words
    if (copies_activations()) {
#pragma unroll
      for (int i = 0; i < kActivationCopies; ++i) {
        activations_held_.store(i, stage + activation_at(i));  // access: stores of activations
      }
    }
    if constexpr (kStagedFactors) store_factors(stage + plan::kScalesAt, kStageGroups);
  }

  /// Scales and zeros of the next `count` groups: of 256 columns a warp takes one group's. kAllK: the stage's k's are
  /// all there.
  template <bool kAllK>
  __device__ __forceinline__ void fetch_factors(uint32 scales, int count) {
    const int own = factor_group();
    if (own >= count) return;
    const bool valid = has_factors_ && (kAllK || own * plan::kGroup < k_left_);
    const int64 groups = static_cast<int64>(count) * args_.n;
    scales_held_.start(0, scales + scales_at_, scales_, valid);  // access: cp.async of scales
    scales_ += 2 * groups;
    if constexpr (plan::kStoredZeros) {
      zeros_held_.start(0, scales + zeros_at_, zeros_, valid);  // access: cp.async of zeros
      zeros_ += groups / kZeroColumns;
    }
  }
  __device__ __forceinline__ void store_factors(uint32 scales, int count) const {
    if (factor_group() >= count) return;
    scales_held_.store(0, scales + scales_at_);                                  // access: stores of scales
    if constexpr (plan::kStoredZeros) zeros_held_.store(0, scales + zeros_at_);  // access: stores of zeros
  }

 private:
  static constexpr int kWordVectors = kWordRowBytes / plan::kCopyBytes;  // of a row
  static constexpr int kVectorColumns = plan::kTileN / kWordVectors;
  static constexpr int kActivationVectors = gemm_lanes::kActivationBytes / 16;
  static constexpr bool kAllCopyActivations = kThreads <= plan::kTileM * kActivationVectors;
  static constexpr int kActivationRows =  // that all threads copy at once
      kAllCopyActivations ? kThreads / kActivationVectors : plan::kTileM;
  static constexpr int kWordCopies = Format::kWordRows * kWordVectors / kThreads;  // of a thread
  static constexpr int kActivationCopies = plan::kTileM / kActivationRows;
  static constexpr int kZeroCopyBytes = Format::kZeroBytes / kWarpSize;
  static constexpr int kZeroColumns = gemm_lanes::kBlockColumns / Format::kZeroBytes;  // per byte
  static constexpr int kFactorLanes = plan::kTileN / 8;  // that copy a group's scales and zeros
  static constexpr int kPeriod = Format::kCopyPeriod;
  static constexpr int kActivationPeriod =  // likewise: rows are swizzled within 8
      kActivationRows < 8 ? 8 / kActivationRows : 1;
  static constexpr int kUnrolledCopies = Copies::kHolds ? kWordCopies : 8;  // registers have constant numbers
  static_assert(kUnrolledCopies % kPeriod == 0);
  static_assert(kThreads % kWordVectors == 0 && plan::kTileM % kActivationRows == 0);

  static __device__ __forceinline__ constexpr gemm_lanes::Place word_vector(int i, int thread) {
    return gemm_lanes::copied_vector(i, thread, kThreads, kWordVectors, plan::kCopyBytes);
  }
  static __device__ __forceinline__ constexpr gemm_lanes::Place activation_vector(int i, int thread) {
    return gemm_lanes::copied_vector(i, thread, kThreads, kActivationVectors, 16);
  }

  /// Whose scales and zeros the thread copies, of a stage's groups.
  static __device__ __forceinline__ int factor_group() {
    return kIntraBlockSplitK ? lane_index() / kFactorLanes : warp_index();
  }
  static __device__ __forceinline__ int factor_lane() {
    return kIntraBlockSplitK ? lane_index() % kFactorLanes : lane_index();
  }

  /// Where copy i of words goes in a stage, and of activations.
  __device__ __forceinline__ uint32 word_at(int i) const {
    const gemm_lanes::Place at = word_vector(i, 0);
    const gemm_lanes::Place first = word_vector(i % kPeriod, 0);
    return words_at_[i % kPeriod] + (plan::word_stage(at.row, at.byte) - plan::word_stage(first.row, first.byte));
  }
  __device__ __forceinline__ uint32 activation_at(int i) const {
    const gemm_lanes::Place at = activation_vector(i, 0);
    const gemm_lanes::Place first = activation_vector(i % kActivationPeriod, 0);
    return activations_at_[i % kActivationPeriod] +
           (plan::activation_stage(at.row, at.byte) - plan::activation_stage(first.row, first.byte));
  }

  template <bool kAllK>
  __device__ __forceinline__ void fetch_tensors(uint32 stage) {
    fetch_words<kAllK>(stage);
    fetch_activations<kAllK>(stage);
    if constexpr (kStagedFactors) fetch_factors<kAllK>(stage + plan::kScalesAt, kStageGroups);
  }

  template <bool kAllK>
  __device__ __forceinline__ void fetch_words(uint32 stage) {
    const int rows = k_left_ / Format::kWordK - word_vector(0, static_cast<int>(ring_thread())).row;
#pragma unroll(kUnrolledCopies)
    for (int i = 0; i < kWordCopies; ++i) {
      const bool valid = has_words_ && (kAllK || word_vector(i, 0).row < rows);
      words_held_.start(i, stage + word_at(i), words_, valid);  // access: cp.async of words
      words_ += kThreads / kWordVectors * Format::row_bytes(args_.n);
    }
  }

  /// Of 8 rows eight warps would have more threads than pieces.
  static __device__ __forceinline__ bool copies_activations() {
    return kAllCopyActivations || ring_thread() < plan::kTileM * kActivationVectors;
  }
  template <bool kAllK>
  __device__ __forceinline__ void fetch_activations(uint32 stage) {
    if (copies_activations()) {
#pragma unroll
      for (int i = 0; i < kActivationCopies; ++i) {
        const int row = activation_vector(i, 0).row;
        const bool valid = row < rows_ && (kAllK || activation_k_ < k_left_);
        const char* const src = activations_ + row * args_.activation_stride;
        activations_held_.start(i, stage + activation_at(i), src, valid);  // access: cp.async of activations
      }
    }
    activations_ += gemm_lanes::kActivationBytes;
  }

  const W4a16GemmArguments& args_;
  const char* words_;        // the thread's first piece of the next stage
  const char* activations_;  // likewise
  const char* scales_;       // of the warp's group in it, the lane's; and zeros
  const char* zeros_;
  uint32 words_at_[kPeriod];  // in a stage, of the first pieces: a swizzle may have the bits between them
  uint32 activations_at_[kActivationPeriod];
  uint32 scales_at_;  // from a stage's scales on; and zeros
  uint32 zeros_at_;
  int k_left_;        // from the next stage on
  int activation_k_;  // of the thread's pieces of activations
  int rows_;          // from the thread's first on
  bool has_words_;
  bool has_factors_;
  Copies::Pieces<plan::kCopyBytes, kWordCopies> words_held_;
  Copies::Pieces<16, kActivationCopies> activations_held_;
  Copies::Pieces<16, 1> scales_held_;
  Copies::Pieces<kZeroCopyBytes, 1> zeros_held_;
};

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
  Fetcher fetcher(args, work_tile);
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
