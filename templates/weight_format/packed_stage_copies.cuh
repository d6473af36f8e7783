// Copies of packed weights for the loop with mma.sync (sm80_gemm.cuh): every thread copies vectors of words, and some
// threads copy the scales and zeros of quantisation groups (factors).
//
// Each class issues the copies of one stage after another. Every thread copies vectors of the same columns in each
// stage, so whatever does not change from stage to stage is computed once. Columns and values along k that do not exist
// are not read; they arrive as zeros.
//
// `Weights` is the weight operand, which has the layout of the packed tensors; `Block` (stage_fetcher.cuh) tells which
// threads copy what.
#pragma once

#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"
#include "weight_format/packed_layers.cuh"

namespace cubit {

/// Quantisation groups of kGroup values along k; 0: one group spans all of k. `LayerType`: see packed_layers.cuh.
template <int kGroup, class LayerType = OneLayer>
struct PackedGroups {
  using Layer = LayerType;
  using Arguments = typename Layer::Arguments;
  static constexpr bool kIsOneGroup = kGroup == 0;
  static constexpr int kStageGroups = kIsOneGroup ? 1 : gemm_lanes::kStageK / kGroup;  ///< groups of a stage
  static constexpr bool kStagesFactors = !kIsOneGroup;
};

template <class Weights, class Block>
class PackedWordCopies {
 public:
  __device__ __forceinline__ PackedWordCopies(const typename Weights::Arguments& args, const WorkTile& work_tile,
                                              typename Block::Thread ring_thread)
      : layer_(args) {
    const int thread = ring_thread.index();
    const int first = work_tile.first * gemm_lanes::kStageK;
    const gemm_lanes::Place word = vector(0, thread);
    const int column = Block::weight_column(args, work_tile.column_tile, thread % kRowVectors * kVectorColumns);
    has_words_ = column >= 0;
    layer_.find(column);
    // Addresses come from the arguments and not from the member: with one layer the compiler then makes the same code
    // as without layers.
    typename Weights::Layer layer(args);
    layer.find(column);
    src_ = layer.words() + (first / Weights::kWordK + word.row) * Weights::row_bytes(layer.columns()) +
           (has_words_ ? Weights::word_byte(layer.place(column)) : 0);
#pragma unroll
    for (int i = 0; i < kPeriod; ++i) {
      const gemm_lanes::Place at = vector(i, thread);
      places_[i] = settled(Weights::word_at(at.row, at.byte));
    }
  }

  /// Starts the copies of the next stage to address `stage`. kAllK: the stage has all of its values along k; otherwise
  /// it has `k_left`.
  template <bool kAllK>
  __device__ __forceinline__ void fetch(uint32 stage, int k_left) {
    const int rows = k_left / Weights::kWordK - vector(0, static_cast<int>(Block::ring_thread())).row;
#pragma unroll(kUnrolled)
    for (int i = 0; i < kCopies; ++i) {
      const bool valid = has_words_ && (kAllK || vector(i, 0).row < rows);
      held_.start(i, stage + place(i), src_, valid);  // access: cp.async of words
      src_ += Block::kThreads / kRowVectors * Weights::row_bytes(layer_.columns());
    }
  }

  /// Stores the vectors of the last fetch() into the stage, if copies are staged through registers.
  __device__ __forceinline__ void store(uint32 stage) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) held_.store(i, stage + place(i));  // access: stores of words
  }

 private:
  static constexpr int kRowVectors = Weights::kWordRowBytes / (gemm_lanes::kBlockColumns / Block::kColumns) /
                                     Block::kCopyBytes;  // vectors per row of words
  static constexpr int kVectorColumns = Block::kColumns / kRowVectors;
  static constexpr int kCopies = Weights::kWordRows * kRowVectors / Block::kThreads;  // copies per thread
  static constexpr int kPeriod = Weights::kCopyPeriod;
  static constexpr int kUnrolled = Block::Copies::kHolds ? kCopies : 8;  // register indices must be constants
  static_assert(kUnrolled % kPeriod == 0 && Block::kThreads % kRowVectors == 0);

  static __device__ __forceinline__ constexpr gemm_lanes::Place vector(int i, int thread) {
    return gemm_lanes::copied_vector(i, thread, Block::kThreads, kRowVectors, Block::kCopyBytes);
  }

  /// Offset in a stage of copy i.
  __device__ __forceinline__ uint32 place(int i) const {
    const gemm_lanes::Place at = vector(i, 0);
    const gemm_lanes::Place first = vector(i % kPeriod, 0);
    return places_[i % kPeriod] + (Weights::word_at(at.row, at.byte) - Weights::word_at(first.row, first.byte));
  }

  typename Weights::Layer layer_;
  const char* src_;  // of the thread's first vector in the next stage
  // Offsets in a stage of the thread's first vectors, one for each copy of a swizzle period. Within a period the
  // distance between two copies depends on the thread. From one period to the next the distance is a constant.
  uint32 places_[kPeriod];
  bool has_words_;
  typename Block::Copies::template Pieces<Block::kCopyBytes, kCopies> held_;
};

/// Copies of factors. kZerosAt: distance of a stage's zeros from its scales.
template <class Weights, class Block, int kGroup, bool kStoredZeros>
class PackedFactorCopies {
 public:
  __device__ __forceinline__ PackedFactorCopies(const typename Weights::Arguments& args, const WorkTile& work_tile)
      : layer_(args) {
    const int column = Block::weight_column(args, work_tile.column_tile, 8 * own_lane());
    has_factors_ = column >= 0;
    layer_.find(column);
    typename Weights::Layer layer(args);  // as in PackedWordCopies
    layer.find(column);
    const int64 group =
        (Weights::kIsOneGroup ? 0 : work_tile.first * static_cast<int64>(Weights::kStageGroups)) + own_group();
    const int64 factor = group * layer.columns() + max(0, layer.place(column));
    scales_ = layer.scales() + 2 * factor;
    scales_at_ = settled(own_group() * kScaleRowBytes + 16 * own_lane());
    if constexpr (kStoredZeros) {
      zeros_ = layer.zeros() + factor / kZeroColumns;
      zeros_at_ = settled(Block::kZerosAt + own_group() * kZeroRowBytes + kZeroCopyBytes * own_lane());
    }
  }

  /// Starts the copies of the next `count` groups. In a block of 256 columns a warp copies one group at a time.
  /// `scales` is the address of the scales. kAllK and k_left: as in PackedWordCopies.
  template <bool kAllK>
  __device__ __forceinline__ void fetch(uint32 scales, int count, int k_left) {
    const int own = own_group();
    if (own >= count) return;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const bool valid = has_factors_ && (kAllK || (own + i * kAtOnce) * kGroup < k_left);
      const int64 factors = i * kAtOnce * static_cast<int64>(layer_.columns());
      scales_held_.start(i, scales + scale_place(i), scales_ + 2 * factors, valid);  // access: cp.async of scales
      if constexpr (kStoredZeros) {
        const char* const src = zeros_ + factors / kZeroColumns;
        zeros_held_.start(i, scales + zero_place(i), src, valid);  // access: cp.async of zeros
      }
    }
    const int64 groups = static_cast<int64>(count) * layer_.columns();
    scales_ += 2 * groups;
    if constexpr (kStoredZeros) zeros_ += groups / kZeroColumns;
  }
  __device__ __forceinline__ void store(uint32 scales, int count) const {
    if (own_group() >= count) return;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      scales_held_.store(i, scales + scale_place(i));                            // access: stores of scales
      if constexpr (kStoredZeros) zeros_held_.store(i, scales + zero_place(i));  // access: stores of zeros
    }
  }

 private:
  static constexpr int kScaleRowBytes = 2 * Block::kColumns;
  static constexpr int kZeroRowBytes = Weights::kZeroBytes / (gemm_lanes::kBlockColumns / Block::kColumns);
  static constexpr int kZeroCopyBytes = Weights::kZeroBytes / kWarpSize;
  static constexpr int kZeroColumns = gemm_lanes::kBlockColumns / Weights::kZeroBytes;  // columns per byte of zeros
  static constexpr int kLanes = Block::kColumns / 8;  // lanes that copy a group's scales and zeros
  // Groups that all threads copy at once, and copies of a thread.
  static constexpr int kAtOnce = Block::kThreads / kLanes;
  static constexpr int kCopies = Weights::kStageGroups > kAtOnce ? Weights::kStageGroups / kAtOnce : 1;
  static_assert(kCopies == 1 || Weights::kStageGroups % kAtOnce == 0);

  /// Offsets from the beginning of a stage's scales of what the thread's copy i writes.
  __device__ __forceinline__ uint32 scale_place(int i) const { return scales_at_ + i * kAtOnce * kScaleRowBytes; }
  __device__ __forceinline__ uint32 zero_place(int i) const { return zeros_at_ + i * kAtOnce * kZeroRowBytes; }

  /// First group of the stage whose scales and zeros this thread copies, and this thread's index among the lanes that
  /// copy that group.
  static __device__ __forceinline__ int own_group() { return Block::kIsWarp ? lane_index() / kLanes : warp_index(); }
  static __device__ __forceinline__ int own_lane() { return Block::kIsWarp ? lane_index() % kLanes : lane_index(); }

  typename Weights::Layer layer_;
  const char* scales_;  // source of the lane's scales in the next stage
  const char* zeros_;   // source of the lane's zeros in the next stage
  // Offsets from the beginning of a stage's scales.
  uint32 scales_at_;
  uint32 zeros_at_;
  bool has_factors_;
  typename Block::Copies::template Pieces<16, kCopies> scales_held_;
  typename Block::Copies::template Pieces<kZeroCopyBytes, kCopies> zeros_held_;
};

/// For weights without factors in a stage.
struct NoFactorCopies {
  template <class Arguments>
  __device__ __forceinline__ NoFactorCopies(const Arguments&, const WorkTile&) {}
  template <bool>
  __device__ __forceinline__ void fetch(uint32, int, int) {}
  __device__ __forceinline__ void store(uint32, int) const {}
};

}  // namespace cubit
