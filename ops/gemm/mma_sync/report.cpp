// What `explain` says about an mma.sync kernel, beyond the decisions of its family.
#include "ops/gemm/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/gemm/mma_sync/kernel.hpp"

namespace cubit::ops::gemm::mma_sync {
namespace {

void add_ring(PlanReport& report, const BlockPlan& block, const std::string& owner, int ring) {
  const StageTiles& tiles = block.tiles;
  for (int i = 0; i < block.stages; ++i) {
    const int base = ring + i * stage_bytes(block);
    const std::string stage = fmt::format("{}stage {}: ", owner, i);
    add_region(report, stage + "words", base, tiles.words.size());
    add_region(report, stage + "activations", base + tiles.activations_at(), tiles.activations.size());
    if (has_indexed_groups(block.descriptor))
      add_region(report, stage + "groups", base + tiles.scales_at(), kIndexBytes);
    if (stages_scales(block.descriptor)) add_scale_regions(report, block, stage, base + tiles.scales_at());
  }
  if (has_one_group(block.descriptor))
    add_scale_regions(report, block, owner, ring + block.stages * stage_bytes(block));
}

Decision copy_decision(const Kernel& kernel) {
  return {"copy of words", fmt::format("{} bytes per thread", kernel.weights.copy_bytes),
          kernel.weights.copy_bytes == 16 ? fmt::format("the widest that {} has", kernel.copies->instruction)
                                          : fmt::format("alignment={}", kernel.weights.copy_bytes)};
}

Decision block_decision(const Kernel& kernel, const codegen::Architecture& architecture) {
  const BlockPlan& block = kernel.block;
  const int allowed = std::min(architecture.registers_per_thread,
                               architecture.registers_per_sm / (block.threads * block.blocks_per_sm) / 8 * 8);
  return {"blocks_per_sm", std::to_string(block.blocks_per_sm),
          fmt::format("{} bytes of shared memory each, and {} registers allowed per thread where the loop keeps about "
                      "{} live",
                      block.shared_memory, allowed, kernel.counted_registers)};
}

Decision layers_decision(const GemmDescriptor& descriptor) {
  const bool is_gated = descriptor.is_gated();
  return {"layers", std::to_string(descriptor.layers),
          is_gated
              ? "a block has gate columns of the first layer and up-projection columns of the second"
              : "tiles are counted layer by layer, so that a block has columns of one layer and finds that layer's "
                "tensors once per tile"};
}

}  // namespace

void describe(PlanReport& report, const Kernel& kernel, const codegen::Architecture& architecture) {
  const BlockPlan& block = kernel.block;
  add_tiles(report, block, stage_accesses(kernel));
  for (int i = 0; i < block.k_partitions; ++i)
    add_ring(report, block, block.k_partitions > 1 ? fmt::format("warp {}: ", i) : "",
             i * ring_bytes(block, block.stages));
  if (block.factor_table_bytes > 0)
    add_region(report, "scales and zeros of all groups", block.shared_memory - block.factor_table_bytes,
               block.factor_table_bytes);
  add_mma_sync_fragments(report, block.descriptor, architecture);
  add_fragments(report, kernel.weights.fragments);
}

Decision warp_decision(const Kernel& kernel) {
  if (kernel.strips_per_warp > 1) {
    return {"warps", std::to_string(kernel.block.warps),
            "each with all rows of two strips of 32 columns: activations are loaded once for both strips"};
  }
  return {"warps", std::to_string(kernel.block.warps),
          "each with all rows of a strip of 32 columns: two strips would not fit a warp's registers"};
}

void add_decisions(PlanReport& report, const Kernel& kernel, const std::vector<Decision>& operands, Decision warps,
                   Decision stages, const codegen::Architecture& architecture) {
  const BlockPlan& block = kernel.block;
  gemm::add_decisions(report, {mma_sync_tile_decision(block), tile_m_decision(block.descriptor)});
  if (block.descriptor.layers > 1) gemm::add_decisions(report, {layers_decision(block.descriptor)});
  gemm::add_decisions(report, operands);
  gemm::add_decisions(report, {std::move(warps), copy_decision(kernel)});
  gemm::add_decisions(report, layout_decisions(block.tiles,
                                               "the simplest layout with the fewest wavefronts over the "
                                               "accesses below"));
  gemm::add_decisions(report, {std::move(stages), block_decision(kernel, architecture)});
}

}  // namespace cubit::ops::gemm::mma_sync
