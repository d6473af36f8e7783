// Kernel family sm90 of w4a16_gemm: producer warps fill a ring of stages with TMA box copies, and consumer warps
// multiply. The family has two kernels. The wide kernel has blocks of 256 columns and multiplies with wgmma. The narrow
// kernel has blocks of fewer columns, whose warps divide the block's k's among them and multiply with mma.sync.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "codegen/plan_header.hpp"
#include "ops/operator.hpp"
#include "ops/w4a16_gemm/launch.hpp"
#include "ops/w4a16_gemm/plan.hpp"
#include "ops/w4a16_gemm/source.hpp"

namespace cubit::ops::w4a16_gemm::sm90 {

/// Warps of a block's producer warpgroup. Only the first `warps` of its four warps work. The warpgroup gives registers
/// to the consumer warps.
struct Producers {
  static constexpr int kWarpgroup = 4;

  int warps = kWarpgroup;
  int registers = 0;           ///< per thread of the producer warpgroup, once the registers have changed hands
  int consumer_registers = 0;  ///< per thread of the other warps
};

/// The plan of the wide kernel: templates/kernels/sm90_w4a16_gemm.cuh.
struct WidePlan {
  BlockPlan block;
  Producers producers;
  /// Tiles of 8 rows and 32 columns whose partial sums are loaded together when split-K slices are merged.
  int merged_tiles = 1;
  PlanReport report;

  int stage_bytes() const;
  int barriers_at(int stages) const { return stages * stage_bytes(); }  ///< behind the stages
  int barrier_bytes(int stages) const;                                  ///< of the stages and of clusters
  /// Sums of a gated block's up-projection columns, behind the barriers.
  int up_sums_at(int stages) const { return align_region(barriers_at(stages) + barrier_bytes(stages)); }
  int shared_memory(int stages) const;
};

/// The plan of the narrow kernel: templates/kernels/sm90_w4a16_gemm_narrow.cuh.
struct NarrowPlan {
  BlockPlan block;
  Producers producers;
  int producer_pauses = 0;  ///< between two stages of a producer warp: copy pacing
  /// Partial sums of the consumer warps have shared memory of their own; otherwise they reuse the first stages.
  bool has_separate_sums = false;
  PlanReport report;

  int stage_bytes() const;                                            ///< words and activations
  int scales_at(int stages) const { return stages * stage_bytes(); }  ///< scales and zeros lie behind the stages
  int scale_bytes() const;                                            ///< scales and zeros of one stage
  int barriers_at(int stages) const { return stages * (stage_bytes() + scale_bytes()); }
  int barrier_bytes(int stages) const { return gemm_lanes::kStageBarrierBytes * stages; }
  int sums_at(int stages) const { return align_region(barriers_at(stages) + barrier_bytes(stages)); }
  int shared_memory(int stages) const;
};

/// Requires tile_n = 256.
WidePlan make_wide_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);
/// Requires tile_n below 256.
NarrowPlan make_narrow_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

/// Words of 8 neighbouring k's: each step of a loop takes its k's from 64 neighbouring k's, so that the swizzle of a
/// tensor map avoids bank conflicts. Groups of 32 forbid that.
bool spreads_words(const W4a16Gemm& descriptor);

/// Tiles of more than 32 rows and words by k: all blocks together write the activations in the order of the words'
/// nibbles to the workspace. See templates/gemm/reordered_activations.cuh.
bool reorders_activations(const W4a16Gemm& descriptor);

/// The columns of a TMA box of scales, and of words by n: the neighbouring columns of a block, at most half of 256.
int box_columns(const W4a16Gemm& descriptor);
/// The layouts in which TMA box copies leave a stage.
StageTiles box_tiles(const W4a16Gemm& descriptor);

std::vector<codegen::TileAccess> word_accesses(const BlockPlan& block);
std::vector<codegen::TileAccess> activation_accesses(const WidePlan& plan);
std::vector<codegen::TileAccess> activation_accesses(const NarrowPlan& plan);
std::vector<codegen::TileAccess> scale_accesses(const BlockPlan& block);
std::vector<codegen::TileAccess> zero_accesses(const BlockPlan& block);

codegen::KernelSource make_source(const WidePlan& plan, const codegen::Architecture& architecture);
codegen::KernelSource make_source(const NarrowPlan& plan, const codegen::Architecture& architecture);

/// Adds the plan's decisions, proofs and fragments to its report, which names the family already.
void write_report(WidePlan& plan, const codegen::Architecture& architecture);
void write_report(NarrowPlan& plan, const codegen::Architecture& architecture);

/// Workspace bytes of exactly this launch.
std::size_t launch_workspace(const BlockPlan& block, const ScheduledLaunch& launch);
std::size_t wide_workspace_bytes(const WidePlan& plan, const void* public_arguments,
                                 const runtime::DeviceFacts& device);
std::size_t narrow_workspace_bytes(const NarrowPlan& plan, const void* public_arguments,
                                   const runtime::DeviceFacts& device);
Launch encode_wide_launch(const WidePlan& plan, const void* public_arguments, void* workspace, std::size_t given,
                          const runtime::DeviceFacts& device);
Launch encode_narrow_launch(const NarrowPlan& plan, const void* public_arguments, void* workspace, std::size_t given,
                            const runtime::DeviceFacts& device);

}  // namespace cubit::ops::w4a16_gemm::sm90
