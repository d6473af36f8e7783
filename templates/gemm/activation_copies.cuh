// Copies of activations for the loop with mma.sync (sm80_gemm.cuh): threads copy 16-byte vectors of rows.
//
// The class issues the copies of one stage after another; whatever does not change from stage to stage is computed
// once. Rows and values along k that do not exist are not read; they arrive as zeros.
#pragma once

#include "core/types.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"
#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

/// `Block` (stage_fetcher.cuh) tells which threads copy what.
template <class Block>
class ActivationCopies {
 public:
  __device__ __forceinline__ ActivationCopies(const GemmArguments& args, const WorkTile& work_tile,
                                              typename Block::Thread ring_thread)
      : args_(args) {
    const int thread = ring_thread.index();
    const int first = work_tile.first * Block::kStageK;
    const gemm_lanes::Place own = vector(0, thread);
    const int row = work_tile.row_tile * Block::kRows + own.row;
    rows_ = args.m - row;
    k_ = own.byte / Block::kValueBytes;
    src_ = static_cast<const char*>(args.activations) + row * args.activation_stride +
           Block::kValueBytes * static_cast<int64>(first) + own.byte;
#pragma unroll
    for (int i = 0; i < kPeriod; ++i) {
      const gemm_lanes::Place at = vector(i, thread);
      places_[i] = settled(Block::activation_at(at.row, at.byte));
    }
  }

  /// Starts the copies of the next stage to address `stage`. kAllK: the stage has all of its values along k; otherwise
  /// it has `k_left`.
  template <bool kAllK>
  __device__ __forceinline__ void fetch(uint32 stage, int k_left) {
    if (takes_part()) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int row = vector(i, 0).row;
        const bool valid = row < rows_ && (kAllK || k_ < k_left);
        const char* const src = src_ + row * args_.activation_stride;
        held_.start(i, stage + place(i), src, valid);  // access: cp.async of activations
      }
    }
    src_ += kRowBytes;
  }

  /// Stores the vectors of the last fetch() into the stage, if copies are staged through registers.
  __device__ __forceinline__ void store(uint32 stage) const {
    if (takes_part()) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        held_.store(i, stage + place(i));  // access: stores of activations
      }
    }
  }

 private:
  static constexpr int kRowBytes = Block::kStageK * Block::kValueBytes;
  static constexpr int kRowVectors = kRowBytes / 16;
  static constexpr bool kAllTakePart = Block::kThreads <= Block::kRows * kRowVectors;
  // Rows that are copied if each thread that takes part copies one vector.
  static constexpr int kRowsAtOnce = kAllTakePart ? Block::kThreads / kRowVectors : Block::kRows;
  static constexpr int kCopies = Block::kRows / kRowsAtOnce;
  // Copies after which the swizzle repeats: rows are swizzled within 8.
  static constexpr int kPeriod = kRowsAtOnce < 8 ? 8 / kRowsAtOnce : 1;
  static_assert(Block::kRows % kRowsAtOnce == 0);

  static __device__ __forceinline__ constexpr gemm_lanes::Place vector(int i, int thread) {
    return gemm_lanes::copied_vector(i, thread, Block::kThreads, kRowVectors, 16);
  }

  /// Not every thread takes part if the tile has fewer vectors than the ring has threads, as with few rows.
  static __device__ __forceinline__ bool takes_part() {
    return kAllTakePart || Block::ring_thread() < Block::kRows * kRowVectors;
  }

  /// Offset in a stage of copy i.
  __device__ __forceinline__ uint32 place(int i) const {
    const gemm_lanes::Place at = vector(i, 0);
    const gemm_lanes::Place first = vector(i % kPeriod, 0);
    return places_[i % kPeriod] + (Block::activation_at(at.row, at.byte) - Block::activation_at(first.row, first.byte));
  }

  const GemmArguments& args_;
  const char* src_;  // of the thread's first vector in the next stage
  // Offsets in a stage of the thread's first vectors, one for each copy of a swizzle period. Within a period the
  // distance between two copies depends on the thread. From one period to the next the distance is a constant.
  uint32 places_[kPeriod];
  int k_;     // offset along k of the thread's vectors
  int rows_;  // rows from the thread's first row on
  typename Block::Copies::template Pieces<16, kCopies> held_;
};

}  // namespace cubit
