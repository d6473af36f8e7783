// From a descriptor and an architecture to a plan of family sm80. Pure.
#include <algorithm>

#include "ops/ring.hpp"
#include "ops/w4a16_gemm/sm80/sm80.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm80 {
namespace {

constexpr mma_sync::StageCopies kCopies = {"pipeline/stage_copies_async.cuh", "cubit::AsyncStageCopies<kStages>",
                                           "cp.async", "cp.async"};

constexpr int kMostStages = 6;
constexpr int kUsualStages = 3;   // at least: one stage in use, one that has landed or is landing, one on its way
constexpr int kFewestStages = 2;  // where three do not fit
constexpr int kMostPartitions = 8;

/// Gated, two tiles' sums would not leave registers for as many loads. The compiler spilled with four tiles of 32 rows
/// of bytes, and with two tiles of awq's groups of 32 in bf16, whose loop is unrolled.
int most_merged_tiles(const W4a16Gemm& descriptor) {
  constexpr int kMost = 4;  // 32 loads of four slices: what the loop's registers hold once the loop is over
  if (descriptor.is_gated()) return 1;
  const bool unrolls_four_groups = descriptor.group_size == 32 && descriptor.tile_m == 16;
  if (has_words_by_n(descriptor) && descriptor.element == Element::bf16 && unrolls_four_groups) return 1;
  return descriptor.bits == 8 && descriptor.tile_m == 32 ? 2 : kMost;
}

void choose_stages(mma_sync::Kernel& kernel, const codegen::Architecture& architecture, int fewest) {
  BlockPlan& block = kernel.block;
  const Ring ring = choose_ring(
      fewest, kMostStages, mma_sync::stage_bytes(block), kBytesInFlight,
      [&](int stages) { return mma_sync::shared_memory(block, stages); },
      [&](int shared) { return resident_blocks(architecture, block.threads, kernel.counted_registers, shared); });
  block.stages = ring.stages;
  block.blocks_per_sm = ring.blocks_per_sm;
  block.shared_memory = ring.shared_memory;
}

/// Blocks of 256 columns. Stages of bytes are twice as large: a second block is worth more than a third stage.
void choose_pipeline(mma_sync::Kernel& kernel, const codegen::Architecture& architecture) {
  choose_stages(kernel, architecture, kernel.block.descriptor.bits == 8 ? kFewestStages : kUsualStages);
  if (kernel.block.stages == 0) choose_stages(kernel, architecture, kFewestStages);
}

/// Blocks of few columns: as many warps as fit with two stages each, up to 8, and then as many stages as fit. One block
/// per multiprocessor.
void choose_partitions(BlockPlan& block, const codegen::Architecture& architecture) {
  const int most_bytes = architecture.shared_memory_per_block;
  for (block.k_partitions = kMostPartitions; block.k_partitions > 1; block.k_partitions /= 2)
    if (mma_sync::shared_memory(block, kFewestStages) <= most_bytes) break;
  for (int stages = kFewestStages; stages <= kMostStages; ++stages) {
    const int bytes = mma_sync::shared_memory(block, stages);
    if (bytes > most_bytes) break;
    block.stages = stages;
    block.shared_memory = bytes;
  }
  block.blocks_per_sm = 1;
  block.threads *= block.k_partitions;
  block.splits_k = false;
}

}  // namespace

Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  Plan plan;
  mma_sync::Kernel& kernel = plan.kernel;
  kernel.block = begin_block(descriptor, "sm80");
  kernel.copies = &kCopies;
  mma_sync::choose_tiles(kernel, descriptor.tile_m <= 32);
  plan.merged_tiles = std::min(most_merged_tiles(descriptor), kernel.strips_per_warp * descriptor.tile_m / 8);
  if (is_narrow(descriptor)) {
    choose_partitions(kernel.block, architecture);
  } else {
    choose_pipeline(kernel, architecture);
  }
  require_stages(kernel.block, architecture);
  return plan;
}

}  // namespace cubit::ops::w4a16_gemm::sm80
