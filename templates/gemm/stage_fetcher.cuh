// Copies of pipeline stages for the mma.sync GEMM (sm80_gemm.cuh), without TMA: every thread copies vectors of
// words and activations, and some threads copy scales and zeros.
//
// plan::Copies chooses between cp.async copies (stage_copies_async.cuh) and copies staged through registers
// (stage_copies_registers.cuh). Columns, rows and values along k that do not exist are not read; they arrive as zeros.
#pragma once

#include "plan.cuh"

#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"
#include "weight_format/packed_gemm_arguments.h"

namespace cubit {

using plan::Copies;

constexpr int kThreads = plan::kWarps * kWarpSize;  // threads that share a ring of stages
constexpr int kWordRowBytes = Format::kWordRowBytes / (gemm_lanes::kBlockColumns / plan::kTileN);
constexpr int kScaleRowBytes = 2 * plan::kTileN;
constexpr int kZeroRowBytes = Format::kZeroBytes / (gemm_lanes::kBlockColumns / plan::kTileN);
constexpr bool kWholeK = plan::kGroup == 0;  // one quantisation group spans all of k
constexpr bool kStagedFactors = !kWholeK && !plan::kActivationOrder;
constexpr int kStageGroups = !kStagedFactors ? 1 : gemm_lanes::kStageK / plan::kGroup;
constexpr bool kFullStages = plan::kGroup == gemm_lanes::kStageK;  // every stage is full: k is a multiple of 128
// True if registers are scarce. The loop over the groups of a stage is then not unrolled, because the loads of the next
// group would spill next to the sums of the current group. fetch() then has one code path, because a second one would
// spill as well. Registers are scarce with many rows, with copies staged through registers, and for words by n with 16
// rows and two groups per stage.
constexpr bool kFewRegisters = kRowTiles > 2 || Copies::kHolds ||
                               (Format::kWordK == 1 && kRowTiles == 2 && kStageGroups == 2);

/// Index of this thread among the threads that share a ring of stages, and the barrier of these threads. The threads
/// are those of one warp with intra-block split-K, and otherwise all threads of the block.
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

/// Issues the copies of one stage after another. Every thread copies vectors of the same columns in each stage, so
/// whatever does not change from stage to stage is computed once.
class StageFetcher {
 public:
  __device__ __forceinline__ StageFetcher(const PackedGemmArguments& args, const WorkTile& work_tile) : args_(args) {
    const int thread = static_cast<int>(ring_thread());
    const int first = work_tile.first * gemm_lanes::kStageK;
    const int first_row = work_tile.row_tile * plan::kTileM;
    k_left_ = args.k - first;

    const gemm_lanes::Place word = word_vector(0, thread);
    const int column = weight_column(args, work_tile.column_tile, thread % kWordVectors * kVectorColumns);
    has_words_ = column >= 0;
    words_ = static_cast<const char*>(args.weights) + (first / Format::kWordK + word.row) * Format::row_bytes(args.n) +
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

  /// Starts the copies of the next stage of the work tile, to address `stage`; all threads of the ring call the
  /// function. With cp.async, a barrier must separate the call from the last read of the stage's previous contents.
  __device__ __forceinline__ void fetch(uint32 stage) {
    if (kFullStages || (!kFewRegisters && k_left_ >= gemm_lanes::kStageK)) {
      fetch_tensors<true>(stage);
    } else {
      fetch_tensors<false>(stage);
    }
    k_left_ -= gemm_lanes::kStageK;
  }

  /// Stores the vectors of the last fetch() into the stage, if copies are staged through registers. The caller needs a
  /// barrier between the last read of the stage and this function, and another barrier before the next read.
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

  /// Starts the copies of the scales and zeros of the next `count` groups. In a block of 256 columns each warp copies
  /// one group. kAllK: the stage has all of its values along k.
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
  static constexpr int kWordVectors = kWordRowBytes / plan::kCopyBytes;  // vectors per row of words
  static constexpr int kVectorColumns = plan::kTileN / kWordVectors;
  static constexpr int kActivationVectors = gemm_lanes::kActivationBytes / 16;
  static constexpr bool kAllCopyActivations = kThreads <= plan::kTileM * kActivationVectors;
  // Rows of activations that all threads copy with one vector each.
  static constexpr int kActivationRows = kAllCopyActivations ? kThreads / kActivationVectors : plan::kTileM;
  static constexpr int kWordCopies = Format::kWordRows * kWordVectors / kThreads;  // copies per thread
  static constexpr int kActivationCopies = plan::kTileM / kActivationRows;
  static constexpr int kZeroCopyBytes = Format::kZeroBytes / kWarpSize;
  static constexpr int kZeroColumns = gemm_lanes::kBlockColumns / Format::kZeroBytes;  // columns per byte of zeros
  static constexpr int kFactorLanes = plan::kTileN / 8;  // lanes that copy a group's scales and zeros
  static constexpr int kPeriod = Format::kCopyPeriod;
  // Copies of activations after which the swizzle repeats: rows are swizzled within 8.
  static constexpr int kActivationPeriod = kActivationRows < 8 ? 8 / kActivationRows : 1;
  static constexpr int kUnrolledCopies = Copies::kHolds ? kWordCopies : 8;  // register indices must be constants
  static_assert(kUnrolledCopies % kPeriod == 0);
  static_assert(kThreads % kWordVectors == 0 && plan::kTileM % kActivationRows == 0);

  static __device__ __forceinline__ constexpr gemm_lanes::Place word_vector(int i, int thread) {
    return gemm_lanes::copied_vector(i, thread, kThreads, kWordVectors, plan::kCopyBytes);
  }
  static __device__ __forceinline__ constexpr gemm_lanes::Place activation_vector(int i, int thread) {
    return gemm_lanes::copied_vector(i, thread, kThreads, kActivationVectors, 16);
  }

  /// Group of the stage whose scales and zeros this thread copies, and this thread's index among the lanes that do.
  static __device__ __forceinline__ int factor_group() {
    return kIntraBlockSplitK ? lane_index() / kFactorLanes : warp_index();
  }
  static __device__ __forceinline__ int factor_lane() {
    return kIntraBlockSplitK ? lane_index() % kFactorLanes : lane_index();
  }

  /// Offset in a stage of copy i of words, and of copy i of activations.
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

  /// Returns true if this thread copies activations. A tile of 8 rows has fewer vectors than eight warps have threads.
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

  const PackedGemmArguments& args_;
  const char* words_;        // source of the thread's first vector of words in the next stage
  const char* activations_;  // source of the thread's first vector of activations in the next stage
  const char* scales_;       // source of the lane's scales in the next stage
  const char* zeros_;        // source of the lane's zeros in the next stage
  // Offsets in a stage of the thread's first vectors, one for each copy of a swizzle period (kPeriod or
  // kActivationPeriod copies). Within a period the distance between two copies depends on the thread. From one period
  // to the next the distance is a constant, see word_at().
  uint32 words_at_[kPeriod];
  uint32 activations_at_[kActivationPeriod];
  // Offsets from the beginning of a stage's scales.
  uint32 scales_at_;
  uint32 zeros_at_;
  int k_left_;        // values along k from the next stage on
  int activation_k_;  // offset along k of the thread's vectors of activations
  int rows_;          // rows from the thread's first row on
  bool has_words_;
  bool has_factors_;
  Copies::Pieces<plan::kCopyBytes, kWordCopies> words_held_;
  Copies::Pieces<16, kActivationCopies> activations_held_;
  Copies::Pieces<16, 1> scales_held_;
  Copies::Pieces<kZeroCopyBytes, 1> zeros_held_;
};

}  // namespace cubit
