// Copies of packed weights for the loops of family sm90: TMA box copies of words and scales, and 4-byte cp.async copies
// of zeros. Rows of zeros may be too short for boxes.
//
// A block's columns are one or two runs of neighbouring columns, called halves. `Block`, a struct of the kernel, has
// kHalves, kHalfColumns, and first_column(args, work_tile, half), the first column of a half. `Block` also has
// weight_column(), as gemm_block.cuh does. Scales of a stage lie as [half][group][column], and zeros as
// [group][column].
#pragma once

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"
#include "weight_format/packed_gemm_arguments.h"

namespace cubit {

/// Tensor map that a packed weight operand adds: scales [groups][n]. The map of the weights has words [rows of words,
/// or k for words by n][words].
struct PackedMaps {
  TensorMap scale_map;

  __device__ __forceinline__ void prefetch() const { prefetch_map(scale_map); }
};

/// kBoxColumns: columns per box of words. kGroup: values along k of a group; 0: one group spans all of k.
template <class Weights, class Block, int kBoxColumns, int kGroup, bool kStoredZeros>
struct PackedBoxes {
  static constexpr uint32 kHalfScaleBytes = 2 * Block::kHalfColumns;              ///< per group
  static constexpr uint32 kZeroBytes = Block::kHalves * Block::kHalfColumns / 2;  ///< per group
  /// kWordBytes: bytes of a stage's words. kBytes: bytes of all boxes of a stage, which are words and scales.
  static constexpr uint32 kWordBytes = gemm_lanes::kStageK * Block::kHalves * Block::kHalfColumns / 2;
  static constexpr uint32 kBytes = kWordBytes + Weights::kStageGroups * Block::kHalves * kHalfScaleBytes;
  /// Arrivals at a stage's barrier: one by expect_bytes(), and one by each lane of the warp that copies zeros.
  static constexpr uint32 kArrivals = kStoredZeros ? 1 + kWarpSize : 1;
  static_assert(Block::kHalves == 1 || Weights::kStageGroups * kHalfScaleBytes % 128 == 0,
                "boxes begin at multiples of 128 bytes");

  /// Starts the box copies of a stage's words to `dst`. One thread calls the functions that start boxes.
  template <class Arguments>
  static __device__ __forceinline__ void load_words(const Arguments& args, const WorkTile& work_tile, int stage,
                                                    uint32 dst, uint32 barrier) {
    constexpr int kBoxes = Block::kHalves * Block::kHalfColumns / kBoxColumns;
    constexpr int kHalfBoxes = kBoxes / Block::kHalves;
    constexpr int kColumnsPerWord = 8 / Weights::kWordK;
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      const int column = Block::first_column(args, work_tile, i / kHalfBoxes) + i % kHalfBoxes * kBoxColumns;
      copy_box(dst + i * (kWordBytes / kBoxes), args.weight_map, column / kColumnsPerWord, stage * Weights::kWordRows,
               barrier);
    }
  }
  /// Starts the box copy of the scales of one half. `scales` is the address of the stage's scales.
  template <class Arguments>
  static __device__ __forceinline__ void load_scales(const Arguments& args, const WorkTile& work_tile, int stage,
                                                     int half, uint32 scales, uint32 barrier) {
    copy_box(scales + half * Weights::kStageGroups * kHalfScaleBytes, args.scale_map,
             Block::first_column(args, work_tile, half), Weights::kIsOneGroup ? 0 : stage * Weights::kStageGroups,
             barrier);
  }

  /// Copies the zeros of a stage, one word of 8 columns per lane and group; all lanes of a producer warp call the
  /// function. The block has 256 columns.
  static __device__ __forceinline__ void copy_zeros(const PackedGemmArguments& args, const WorkTile& work_tile,
                                                    int stage, uint32 dst) {
    const int column = Block::weight_column(args, work_tile.column_tile, 8 * lane_index());
#pragma unroll
    for (int i = 0; i < Weights::kStageGroups; ++i) {
      const int group = Weights::kIsOneGroup ? 0 : stage * Weights::kStageGroups + i;
      const bool valid = column >= 0 && (Weights::kIsOneGroup || group * kGroup < args.k);
      const int64 word = valid ? (group * static_cast<int64>(args.n) + column) / 8 : 0;
      const char* const src = static_cast<const char*>(args.qzeros) + 4 * word;
      copy_async<4>(dst + i * kZeroBytes + 4 * lane_index(), src, valid);  // access: cp.async of zeros
    }
  }

  /// Copies the zeros of a producer warp's stages, each kStride stages behind the one before. A lane copies a word of 8
  /// columns per group.
  template <int kStride>
  class ZeroCopies {
   public:
    __device__ __forceinline__ ZeroCopies(const PackedGemmArguments& args, const WorkTile& work_tile, int stage) {
      is_lane_ = lane_index() < Block::kHalves * Block::kHalfColumns / 8;
      const int column = is_lane_ ? Block::weight_column(args, work_tile.column_tile, 8 * lane_index()) : -1;
      exists_ = column >= 0;
      row_bytes_ = args.n / 2;
      const int first = Weights::kIsOneGroup ? 0 : stage * Weights::kStageGroups;
      constexpr int kSize = Weights::kIsOneGroup ? 1 : kGroup;
      groups_left_ = (args.k + kSize - 1) / kSize - first;  // the last group may be shorter
      src_ = static_cast<const char*>(args.qzeros) + first * row_bytes_ + max(0, column) / 2;
    }

    /// Copies the zeros of the next stage.
    __device__ __forceinline__ void copy(uint32 dst) {
      if (is_lane_) {
#pragma unroll
        for (int i = 0; i < Weights::kStageGroups; ++i) {
          const uint32 own = dst + i * kZeroBytes + 4 * lane_index();
          const bool valid = exists_ && (Weights::kStageGroups == 1 || i < groups_left_);
          copy_async<4>(own, src_ + i * row_bytes_, valid);  // access: cp.async of zeros
        }
      }
      if constexpr (Weights::kIsOneGroup) return;
      src_ += kStride * Weights::kStageGroups * row_bytes_;
      groups_left_ -= kStride * Weights::kStageGroups;
    }

   private:
    const char* src_;  // source of the lane's zeros in the next stage
    int64 row_bytes_;  // bytes per group
    int groups_left_;  // groups from the next stage on
    bool is_lane_;
    bool exists_;
  };
};

}  // namespace cubit
