// Copies of pipeline stages for the loop with mma.sync (sm80_gemm.cuh), without TMA.
//
// plan::Copies chooses between cp.async copies (stage_copies_async.cuh) and copies staged through registers
// (stage_copies_registers.cuh). The weight operand has the copies of its tensors; activation_copies.cuh has those of
// the activations.
#pragma once

#include "plan.cuh"

#include "core/types.cuh"
#include "gemm/activation_copies.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k.cuh"

namespace cubit {

/// Index of this thread among the threads that share a ring of stages. A lane keeps its index, because the compiler
/// would compute the index once more for each tensor.
template <bool kIsWarp>
struct RingThread {
  static __device__ __forceinline__ int index() { return static_cast<int>(thread_index()); }
};
template <>
struct RingThread<true> {
  int lane = lane_index();

  __device__ __forceinline__ int index() const { return lane; }
};

/// A ring of stages, and the threads that share it: those of one warp with intra-block split-K, and otherwise all
/// threads of the block. Stages have kRows rows and kColumns columns of the weights.
struct RingBlock {
  using Copies = plan::Copies;
  static constexpr bool kIsWarp = kIntraBlockSplitK;
  using Thread = RingThread<kIsWarp>;
  static constexpr int kThreads = plan::kWarps * kWarpSize;
  static constexpr int kRows = plan::kTileM;
  static constexpr int kColumns = plan::kTileN;
  static constexpr int kStageK = cubit::kStageK;
  static constexpr int kValueBytes = Activations::kValueBytes;
  static constexpr int kCopyBytes = plan::kCopyBytes;                ///< vectors of weights
  static constexpr int kZerosAt = plan::kZerosAt - plan::kScalesAt;  ///< distance of zeros from scales

  /// Index of this thread among the threads that share the ring.
  static __device__ __forceinline__ uint32 ring_thread() {
    return kIsWarp ? thread_index() % kWarpSize : thread_index();
  }
  static __device__ __forceinline__ void sync() {
    if constexpr (kIsWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
  static __device__ __forceinline__ int weight_column(const GemmArguments& args, int column_tile, int place) {
    return cubit::weight_column(args, column_tile, place);
  }
  /// Offset of a byte of the activations in a stage.
  static constexpr __device__ int activation_at(int row, int byte) {
    return plan::kActivationsAt + plan::activation_stage(row, byte);
  }
};

// True if registers are scarce. The loop over the groups of a stage is then not unrolled, because the loads of the next
// group would spill next to the sums of the current group. Registers are scarce with many rows, with copies staged
// through registers, and as the weight operand says.
constexpr bool kFewRegisters = kRowTiles > 2 || RingBlock::Copies::kHolds || !Weights::unrolls_groups(kRowTiles);
// True if fetch() has a code path for full stages, which copies without comparing with the end of k, and another path
// for the last stage. Where registers are scarce a second path would spill, except with one group per stage.
constexpr bool kHasFullPath =
    !kFewRegisters || (Weights::kStagesFactors && Weights::kStageGroups == 1 && !RingBlock::Copies::kHolds);

/// Issues the copies of one stage after another.
class StageFetcher {
 public:
  __device__ __forceinline__ StageFetcher(const Weights::Arguments& args, const WorkTile& work_tile,
                                          RingBlock::Thread thread = {})
      : k_left_(args.k - work_tile.first * kStageK),
        words_(args, work_tile, thread),
        activations_(args, work_tile, thread),
        factors_(args, work_tile) {}

  /// Starts the copies of the next stage of the work tile, to address `stage`; all threads of the ring call the
  /// function. With cp.async, a barrier must separate the call from the last read of the stage's previous contents.
  __device__ __forceinline__ void fetch(uint32 stage) {
    if (kHasFullPath && k_left_ >= kStageK) {
      fetch_tensors<true>(stage);
    } else {
      fetch_tensors<false>(stage);
    }
    k_left_ -= kStageK;
  }

  /// Stores the vectors of the last fetch() into the stage, if copies are staged through registers. The caller needs a
  /// barrier between the last read of the stage and this function, and another barrier before the next read.
  __device__ __forceinline__ void store(uint32 stage) const {
    words_.store(stage);
    activations_.store(stage);
    if constexpr (Weights::kStagesFactors) factors_.store(stage + plan::kScalesAt, Weights::kStageGroups);
  }

  /// Copies the factors of the only group, if one group spans all of k, to address `factors`.
  __device__ __forceinline__ void copy_whole_factors(uint32 factors) {
    factors_.template fetch<false>(factors, 1, k_left_);
    factors_.store(factors, 1);
  }

 private:
  template <bool kAllK>
  __device__ __forceinline__ void fetch_tensors(uint32 stage) {
    words_.template fetch<kAllK>(stage, k_left_);
    activations_.template fetch<kAllK>(stage, k_left_);
    if constexpr (Weights::kStagesFactors)
      factors_.template fetch<kAllK>(stage + plan::kScalesAt, Weights::kStageGroups, k_left_);
  }

  int k_left_;  // values along k from the next stage on
  Weights::WordCopies<RingBlock> words_;
  ActivationCopies<RingBlock> activations_;
  Weights::FactorCopies<RingBlock> factors_;
};

}  // namespace cubit
