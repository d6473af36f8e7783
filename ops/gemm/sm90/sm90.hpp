// Kernel family sm90 of GEMMs: producer warps fill a ring of stages with TMA box copies, and consumer warps
// multiply. The family has two kernels. The wide kernel has blocks of 256 columns and multiplies with wgmma. The narrow
// kernel has blocks of fewer columns, whose warps divide the block's k's among them and multiply with mma.sync.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "codegen/plan_header.hpp"
#include "ops/gemm/launch.hpp"
#include "ops/gemm/plan.hpp"
#include "ops/gemm/weights.hpp"
#include "ops/operator.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm::sm90 {

/// Warps of a block's producer warpgroup. Only the first `warps` of its four warps work. The warpgroup gives registers
/// to the consumer warps.
struct Producers {
  static constexpr int kWarpgroup = 4;

  int warps = kWarpgroup;
  int registers = 0;           ///< per thread of the producer warpgroup, once the registers have changed hands
  int consumer_registers = 0;  ///< per thread of the other warps
};

/// The weight operand of a wide or a narrow kernel. Box copies bring words and scales, and cp.async brings zeros.
struct Weights : WeightOperand {
  /// Each step of a loop takes its k's from 64 neighbouring k's, so that the swizzle of a tensor map avoids bank
  /// conflicts.
  bool spreads_words = false;
  /// Wide kernel: the words' k's are in an order of their own. See BlockPlan::reorders_activations.
  bool reorders_activations = false;
  int producer_warps = 1;   ///< narrow kernel, at most 4
  int producer_pauses = 0;  ///< narrow kernel: between two stages of a producer warp: copy pacing
};

/// The plan of the wide kernel: templates/kernels/gemm/sm90_gemm.cuh.
struct WidePlan {
  BlockPlan block;
  Weights weights;
  Producers producers;
  /// Tiles of 8 rows and 32 columns whose partial sums are loaded together when split-K slices are merged.
  int merged_tiles = 1;

  int stage_bytes() const;
  int barriers_at(int stages) const { return stages * stage_bytes(); }  ///< behind the stages
  int barrier_bytes(int stages) const;                                  ///< of the stages and of clusters
  /// Sums of a gated block's up-projection columns, behind the barriers.
  int up_sums_at(int stages) const { return align_region(barriers_at(stages) + barrier_bytes(stages)); }
  int shared_memory(int stages) const;
};

/// The plan of the narrow kernel: templates/kernels/gemm/sm90_narrow_gemm.cuh.
struct NarrowPlan {
  BlockPlan block;
  Weights weights;
  Producers producers;
  /// Partial sums of the consumer warps have shared memory of their own; otherwise they reuse the first stages.
  bool has_separate_sums = false;

  int stage_bytes() const;                                            ///< words and activations
  int scales_at(int stages) const { return stages * stage_bytes(); }  ///< scales and zeros lie behind the stages
  int scale_bytes() const;                                            ///< scales and zeros of one stage
  int barriers_at(int stages) const { return stages * (stage_bytes() + scale_bytes()); }
  int barrier_bytes(int stages) const { return gemm_lanes::kStageBarrierBytes * stages; }
  int sums_at(int stages) const { return align_region(barriers_at(stages) + barrier_bytes(stages)); }
  int shared_memory(int stages) const;
};

/// Requires tile_n = 256.
WidePlan make_wide_plan(const GemmDescriptor& descriptor, Weights weights, const codegen::Architecture& architecture);
/// Requires tile_n below 256.
NarrowPlan make_narrow_plan(const GemmDescriptor& descriptor, Weights weights,
                            const codegen::Architecture& architecture);

codegen::KernelSource make_source(const WidePlan& plan, const codegen::Architecture& architecture);
codegen::KernelSource make_source(const NarrowPlan& plan, const codegen::Architecture& architecture);

/// Adds the plan's decisions, proofs and fragments to a report, which names the family already. `operands`: how words
/// become operands.
void write_report(PlanReport& report, const WidePlan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture);
void write_report(PlanReport& report, const NarrowPlan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture);

/// Both require that the launch is not empty, that its tensors are checked, and exact_workspace_bytes() of workspace.
Launch encode_launch(const WidePlan& plan, const ScheduledLaunch& scheduled, const WeightTensors& weights,
                     void* workspace, const runtime::DeviceFacts& device);
Launch encode_launch(const NarrowPlan& plan, const ScheduledLaunch& scheduled, const WeightTensors& weights,
                     void* workspace, const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gemm::sm90
