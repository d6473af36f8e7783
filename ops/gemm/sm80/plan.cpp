// From a descriptor and an architecture to a plan of family sm80. Pure.
#include <algorithm>
#include <utility>

#include "ops/gemm/sm80/sm80.hpp"
#include "ops/ring.hpp"

namespace cubit::ops::gemm::sm80 {
namespace {

constexpr mma_sync::StageCopies kCopies = {"pipeline/stage_copies_async.cuh", "cubit::AsyncStageCopies<kStages>",
                                           "cp.async", "cp.async"};

constexpr int kMostStages = 6;
constexpr int kFewestStages = 2;
constexpr int kMostPartitions = 8;

/// Gated, two tiles' sums would not leave registers for as many loads.
int most_merged_tiles(const mma_sync::Kernel& kernel) {
  return kernel.block.descriptor.is_gated() ? 1 : kernel.weights.most_merged_tiles;
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

/// Blocks of 256 columns.
void choose_pipeline(mma_sync::Kernel& kernel, const codegen::Architecture& architecture) {
  choose_stages(kernel, architecture, kernel.weights.fewest_stages);
  if (kernel.block.stages == 0) choose_stages(kernel, architecture, kFewestStages);
}

/// A table of scales and zeros of as many groups as eight warps with two stages each leave room for. Where that is too
/// little for usual layers, fewer warps have to do.
void choose_table(BlockPlan& block, int row_bytes, int most_bytes) {
  constexpr int kFewestGroups = 32;
  if (row_bytes == 0) return;
  block.k_partitions = kMostPartitions;
  int room = most_bytes - mma_sync::shared_memory(block, kFewestStages);
  if (room < kFewestGroups * row_bytes) room = most_bytes * 3 / 8;
  block.factor_table_bytes = std::min(kMostTableGroups, room / row_bytes) * row_bytes;
}

/// Blocks of few columns: as many warps as fit with two stages each, up to 8, and then as many stages as fit. One
/// block per multiprocessor.
void choose_partitions(mma_sync::Kernel& kernel, const codegen::Architecture& architecture) {
  BlockPlan& block = kernel.block;
  const int most_bytes = architecture.shared_memory_per_block;
  choose_table(block, kernel.weights.group_row_bytes, most_bytes);
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

Plan make_plan(const GemmDescriptor& descriptor, mma_sync::Weights weights, const codegen::Architecture& architecture) {
  Plan plan;
  mma_sync::Kernel& kernel = plan;
  kernel = mma_sync::begin_kernel(descriptor, std::move(weights), "sm80", kCopies);
  mma_sync::choose_tiles(kernel, descriptor.tile_m <= 32);
  plan.merged_tiles = std::min(most_merged_tiles(kernel), kernel.strips_per_warp * descriptor.tile_m / 8);
  if (is_narrow(descriptor)) {
    choose_partitions(kernel, architecture);
  } else {
    choose_pipeline(kernel, architecture);
  }
  require_stages(kernel.block, architecture);
  return plan;
}

}  // namespace cubit::ops::gemm::sm80
