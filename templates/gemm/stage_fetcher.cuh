// Copies of the stages of the W4A16 GEMM without TMA: every thread copies vectors of the words and the activations, and
// some threads copy scales and zeros.
#pragma once

#include "plan.cuh"

#include "core/types.cuh"
#include "gemm/split_k.cuh"
#include "gemm/w4a16_gemm_block.cuh"
#include "gemm/w4a16_gemm_lanes.h"
#include "kernels/w4a16_gemm_arguments.h"

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
class StageFetcher {
 public:
  __device__ __forceinline__ StageFetcher(const W4a16GemmArguments& args, const WorkTile& work_tile) : args_(args) {
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

}  // namespace cubit
