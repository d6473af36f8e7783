// The mma.sync kernel of w4a16_gemm, which the families sm75 and sm80 share: its loop multiplies with mma.sync, and its
// threads copy stages themselves. A family gives the kernel a role for its copies and plans its pipeline.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "ops/operator.hpp"
#include "ops/w4a16_gemm/plan.hpp"
#include "ops/w4a16_gemm/source.hpp"

namespace cubit::ops::w4a16_gemm::mma_sync {

/// How the threads of a block copy a stage from global to shared memory.
struct StageCopies {
  const char* header;       ///< the role's header in templates/
  const char* role;         ///< the role's type
  const char* access;       ///< the copies' name among the template's accesses: "cp.async"
  const char* instruction;  ///< the copies' name in explanations: "cp.async", "a load"
};

/// The plan of such a kernel. With tile_n below 256 each warp has all of the block's columns, a part of its k's and a
/// ring of stages of its own.
struct Kernel {
  BlockPlan block;
  const StageCopies* copies = nullptr;
  int strips_per_warp = 1;    ///< strips of 32 columns: 1 or 2
  int copy_bytes = 16;        ///< of words, per thread
  int counted_registers = 0;  ///< registers that the loop keeps live, per thread
};

/// Chooses warps, layouts, registers and the constants of the performance model; pipeline depth and blocks per
/// multiprocessor are left to the family. `allows_two_strips`: a warp has registers for two strips of columns, for
/// which activations are loaded once.
void choose_tiles(Kernel& kernel, bool allows_two_strips);

/// Registers that the loop keeps live, by counting the loop's arrays.
int count_registers(const W4a16Gemm& descriptor, int strips_per_warp);

int stage_bytes(const BlockPlan& block);
/// One ring of stages, and behind them scales and zeros if one group is all of k.
int ring_bytes(const BlockPlan& block, int stages);
/// The rings of all of a block's warps.
int shared_memory(const BlockPlan& block, int stages);

std::vector<codegen::TileAccess> word_accesses(const Kernel& kernel);
std::vector<codegen::TileAccess> activation_accesses(const Kernel& kernel);
std::vector<codegen::TileAccess> scale_accesses(const Kernel& kernel);
std::vector<codegen::TileAccess> zero_accesses(const Kernel& kernel);

/// `split_k`: the role that divides work among blocks and warps.
codegen::KernelSource make_source(const Kernel& kernel, int merged_tiles, const Role& split_k,
                                  const codegen::Architecture& architecture);

/// Why the layouts of a stage are as they are.
inline constexpr const char* kSearchedLayouts =
    "the simplest layout with the fewest wavefronts over the accesses below";

/// Adds tiles with their proofs, the memory map and the fragments to the report.
void describe(PlanReport& report, const Kernel& kernel, const codegen::Architecture& architecture);
Decision warp_decision(const Kernel& kernel);
Decision copy_decision(const Kernel& kernel);
Decision block_decision(const Kernel& kernel, const codegen::Architecture& architecture);

std::size_t workspace_bytes(const Kernel& kernel, const void* public_arguments, const runtime::DeviceFacts& device);
Launch encode_launch(const Kernel& kernel, const void* public_arguments, void* workspace, std::size_t given,
                     const runtime::DeviceFacts& device);

}  // namespace cubit::ops::w4a16_gemm::mma_sync
