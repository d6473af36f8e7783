// From a descriptor and an architecture to a plan of family sm75. Pure.
#include <algorithm>
#include <utility>

#include "ops/gemm/sm75/sm75.hpp"

namespace cubit::ops::gemm::sm75 {
namespace {

constexpr mma_sync::StageCopies kCopies = {"pipeline/stage_copies_registers.cuh", "cubit::HeldStageCopies", "stores",
                                           "a load"};

/// A thread's part of a stage's bytes.
int count_held_registers(const mma_sync::Kernel& kernel) {
  const BlockPlan& block = kernel.block;
  const int words = block.tiles.words.rows * block.tiles.words.row_bytes;
  // Each thread copies at least one vector of 16 bytes.
  const int activations = std::max(16 * block.threads, block.descriptor.tile_m * activation_row_bytes(block));
  return (words + activations) / (4 * block.threads) + kernel.weights.held_registers;
}

/// One stage in shared memory, because the next stage is in registers, and as many blocks as fit.
void choose_blocks(mma_sync::Kernel& kernel, const codegen::Architecture& architecture) {
  BlockPlan& block = kernel.block;
  block.shared_memory = mma_sync::shared_memory(block, 1);
  block.blocks_per_sm = resident_blocks(architecture, block.threads, kernel.counted_registers, block.shared_memory);
  block.stages = block.blocks_per_sm > 0 ? 1 : 0;
}

}  // namespace

Plan make_plan(const GemmDescriptor& descriptor, mma_sync::Weights weights, const codegen::Architecture& architecture) {
  Plan plan;
  mma_sync::Kernel& kernel = plan;
  kernel = mma_sync::begin_kernel(descriptor, std::move(weights), "sm75", kCopies);
  mma_sync::choose_tiles(kernel, kernel.weights.holds_two_strips && descriptor.tile_m <= 16);
  plan.held_registers = count_held_registers(kernel);
  kernel.counted_registers =
      std::min((kernel.counted_registers + plan.held_registers + 7) / 8 * 8, architecture.registers_per_thread);
  choose_blocks(kernel, architecture);
  require_stages(kernel.block, architecture);
  return plan;
}

}  // namespace cubit::ops::gemm::sm75
