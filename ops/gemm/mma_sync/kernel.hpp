// The mma.sync kernel, which the families sm75 and sm80 share: its loop multiplies with mma.sync, and its threads copy
// stages themselves. A family gives the kernel a role for its copies and plans its pipeline.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "ops/gemm/launch.hpp"
#include "ops/gemm/plan.hpp"
#include "ops/gemm/source.hpp"
#include "ops/gemm/weights.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gemm::mma_sync {

/// How the threads of a block copy a stage from global to shared memory.
struct StageCopies {
  const char* header;       ///< the role's header in templates/
  const char* role;         ///< the role's type
  const char* access;       ///< the copies' name among the template's accesses: "cp.async"
  const char* instruction;  ///< the copies' name in explanations: "cp.async", "a load"
};

/// The weight operand of such a kernel.
struct Weights : WeightOperand {
  Role product = {"gemm/mma_product.cuh", "cubit::Float32MmaProduct<Element>"};
  int copy_bytes = 16;            ///< of words, per thread
  int strip_registers = 20;       ///< live in the loop for each strip of columns: words, operand and scales
  int strip_tile_registers = 16;  ///< for each strip and tile of 8 rows: sums, and products of the current group
  int more_registers = 0;         ///< live in the loop besides
  int held_registers = 0;         ///< family sm75: of a thread's scales and zeros of the next stage
  bool holds_two_strips = true;   ///< family sm75: with up to 16 rows a warp has registers for two strips
  int fewest_stages = 3;          ///< family sm80: of the pipeline, or 2 where shared memory has no room for these
  int most_merged_tiles = 4;      ///< family sm80: see sm80::Plan::merged_tiles
};

/// The plan of such a kernel. With tile_n below 256 each warp has all of the block's columns, a part of its k's and a
/// ring of stages of its own.
struct Kernel {
  BlockPlan block;
  Weights weights;
  const StageCopies* copies = nullptr;
  int strips_per_warp = 1;    ///< strips of 32 columns: 1 or 2
  int counted_registers = 0;  ///< registers that the loop keeps live, per thread
};

/// A kernel whose tiles, pipeline depth and blocks are still to be chosen.
Kernel begin_kernel(const GemmDescriptor& descriptor, Weights weights, std::string_view family,
                    const StageCopies& copies);

/// Chooses warps, layouts, registers and the constants of the performance model; pipeline depth and blocks per
/// multiprocessor are left to the family. `allows_two_strips`: a warp has registers for two strips of columns, for
/// which activations are loaded once.
void choose_tiles(Kernel& kernel, bool allows_two_strips);

/// The groups of a stage's values along k, where g_idx names them.
inline constexpr int kIndexBytes = 4 * gemm_lanes::kStageK;
int stage_bytes(const BlockPlan& block);
/// One ring of stages, and behind them scales and zeros if one group is all of k.
int ring_bytes(const BlockPlan& block, int stages);
/// The rings of all of a block's warps, and behind them the table of scales and zeros.
int shared_memory(const BlockPlan& block, int stages);

std::vector<codegen::TileAccess> word_accesses(const Kernel& kernel);
std::vector<codegen::TileAccess> activation_accesses(const Kernel& kernel);
/// Accesses of lanes and copies together.
StageAccesses stage_accesses(const Kernel& kernel);

/// `split_k`: the role that divides work among blocks and warps.
codegen::KernelSource make_source(const Kernel& kernel, int merged_tiles, const Role& split_k,
                                  const codegen::Architecture& architecture);

/// Adds tiles with their proofs, the memory map and the fragments to the report.
void describe(PlanReport& report, const Kernel& kernel, const codegen::Architecture& architecture);
/// Adds all decisions but those on the schedule. `operands`: how words become operands. `warps` and `stages` are the
/// family's.
void add_decisions(PlanReport& report, const Kernel& kernel, const std::vector<Decision>& operands, Decision warps,
                   Decision stages, const codegen::Architecture& architecture);
/// Warps that divide the block's columns among them.
Decision warp_decision(const Kernel& kernel);

/// Requires that the launch is not empty, that its tensors are checked, and exact_workspace_bytes() of workspace.
Launch encode_launch(const Kernel& kernel, const ScheduledLaunch& launch, const WeightTensors& weights, void* workspace,
                     const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gemm::mma_sync
