// From a descriptor and an architecture to a plan of family sm75. Pure.
#include <algorithm>

#include "ops/w4a16_gemm/sm75/sm75.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm::sm75 {
namespace {

constexpr mma_sync::StageCopies kCopies = {"pipeline/stage_copies_registers.cuh", "cubit::HeldStageCopies", "stores",
                                           "a load"};

/// A thread's part of a stage's bytes.
int count_held_registers(const W4a16Gemm& descriptor, int strips_per_warp) {
  const int threads = 32 * gemm_lanes::kStrips / strips_per_warp;
  const int words = gemm_lanes::kStageK * gemm_lanes::kBlockColumns * descriptor.bits / 8;
  // Each thread copies at least one vector of 16 bytes.
  const int activations = std::max(16 * threads, descriptor.tile_m * gemm_lanes::kActivationBytes);
  const int zeros = stores_zeros(descriptor) ? descriptor.bits / 4 : 0;
  const int scales_and_zeros = stages_scales(descriptor) ? 4 + zeros : 0;
  return (words + activations) / (4 * threads) + scales_and_zeros;
}

/// A warp has registers for two strips and the next stage: not of bytes, which take twice as many registers as nibbles,
/// and not with the two terms of activation order, whose kernel the compiler spilled.
bool allows_two_strips(const W4a16Gemm& descriptor) {
  return descriptor.bits == 4 && !descriptor.activation_order && descriptor.tile_m <= 16;
}

/// One stage in shared memory, because the next stage is in registers, and as many blocks as fit.
void choose_blocks(mma_sync::Kernel& kernel, const codegen::Architecture& architecture) {
  BlockPlan& block = kernel.block;
  block.shared_memory = mma_sync::shared_memory(block, 1);
  block.blocks_per_sm = resident_blocks(architecture, block.threads, kernel.counted_registers, block.shared_memory);
  block.stages = block.blocks_per_sm > 0 ? 1 : 0;
}

}  // namespace

Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  Plan plan;
  mma_sync::Kernel& kernel = plan.kernel;
  kernel.block = begin_block(descriptor, "sm75");
  kernel.copies = &kCopies;
  mma_sync::choose_tiles(kernel, allows_two_strips(descriptor));
  plan.held_registers = count_held_registers(descriptor, kernel.strips_per_warp);
  kernel.counted_registers =
      std::min((kernel.counted_registers + plan.held_registers + 7) / 8 * 8, architecture.registers_per_thread);
  choose_blocks(kernel, architecture);
  require_stages(kernel.block, architecture);
  return plan;
}

}  // namespace cubit::ops::w4a16_gemm::sm75
