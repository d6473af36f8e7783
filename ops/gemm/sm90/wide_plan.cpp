// From a descriptor and an architecture to a plan of the wide kernel. Pure.
#include <algorithm>
#include <utility>

#include "ops/gemm/boxes.hpp"
#include "ops/gemm/sm90/sm90.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm::sm90 {
namespace {

constexpr int kFewestStages = 2;
constexpr int kMostStages = 12;  // 8 rows have room for so many
constexpr int kMostMergedTiles = 4;
constexpr int kSwizzleRegion = 1024;  // where tensor maps swizzle rows of 128 bytes, and wgmma finds the rows again

/// Workspace counters of the reordering of activations: one for each slice of activations, and two.
constexpr std::int64_t kReorderCounters = 256;

BlockPlan make_block(const GemmDescriptor& descriptor, const Weights& weights) {
  BlockPlan block = begin_block(descriptor, weights, "sm90");
  block.warps = gemm_lanes::kStrips;
  block.threads = 32 * (block.warps + Producers::kWarpgroup);
  block.blocks_per_sm = 1;
  block.needs_row_stride = true;
  block.counters_per_tile = counters_per_tile(descriptor, block.warps);
  block.reorders_activations = weights.reorders_activations;
  if (block.reorders_activations) block.merge_counters -= kReorderCounters;
  block.has_clusters = !descriptor.is_gated() && descriptor.tile_m >= 16;
  block.tiles.activations = box_layout(descriptor.tile_m, activation_row_bytes(block), 128);
  return block;
}

}  // namespace

int WidePlan::stage_bytes() const {
  const StageTiles& tiles = block.tiles;
  const int end = tiles.zeros_at(tiles.scales_at()) + tiles.zeros.size();
  return (end + kSwizzleRegion - 1) / kSwizzleRegion * kSwizzleRegion;
}

int WidePlan::barrier_bytes(int stages) const {
  return gemm_lanes::kStageBarrierBytes * stages + gemm_lanes::kClusterBarrierBytes;
}

int WidePlan::shared_memory(int stages) const {
  const int up_columns = block.descriptor.is_gated() ? gemm_lanes::kBlockColumns / 2 : 0;
  return up_sums_at(stages) + up_columns * block.descriptor.tile_m * block.descriptor.sum_bytes;
}

WidePlan make_wide_plan(const GemmDescriptor& descriptor, Weights weights, const codegen::Architecture& architecture) {
  WidePlan plan;
  plan.block = make_block(descriptor, weights);
  plan.weights = std::move(weights);
  plan.producers = {.registers = 72, .consumer_registers = 216};
  plan.merged_tiles = std::min(kMostMergedTiles, descriptor.tile_m / 8);
  // As many stages as fit: a block has a multiprocessor to itself.
  for (int stages = kFewestStages; stages <= kMostStages; ++stages) {
    if (plan.shared_memory(stages) > architecture.shared_memory_per_block) break;
    plan.block.stages = stages;
    plan.block.shared_memory = plan.shared_memory(stages);
  }
  require_stages(plan.block, architecture);
  return plan;
}

}  // namespace cubit::ops::gemm::sm90
