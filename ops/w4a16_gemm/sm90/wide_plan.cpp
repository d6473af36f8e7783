// From a descriptor and an architecture to a plan of the wide kernel. Pure.
#include <algorithm>

#include "ops/w4a16_gemm/sm90/sm90.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm::sm90 {
namespace {

constexpr int kFewestStages = 2;
constexpr int kMostStages = 12;  // 8 rows have room for so many
constexpr int kMostMergedTiles = 4;
constexpr int kSwizzleRegion = 1024;  // where tensor maps swizzle rows of 128 bytes, and wgmma finds the rows again

/// Workspace counters of the reordering of activations: one for each slice of activations, and two.
constexpr std::int64_t kReorderCounters = 256;

WideTimes times_of(const W4a16Gemm& descriptor) {
  const bool has_many_rows = descriptor.tile_m > 32;
  WideTimes times;
  times.second_tile = 13;                   // one block per multiprocessor, so nothing else runs while a tile ends
  times.awq = has_many_rows ? 0.95 : 1.03;  // the activations of other formats are reordered
  times.stage = descriptor.tile_m == 8 ? 0.45 : descriptor.tile_m == 16 ? 0.57 : has_many_rows ? 0.846 : 0.633;
  times.merge_slice = descriptor.tile_m == 8 ? 0.17 : descriptor.tile_m == 16 ? 0.35 : has_many_rows ? 0.1 : 0.4;
  if (descriptor.tile_m <= 16) return times;
  times.merge = has_many_rows ? 3.7 : 0.8;
  times.unclustered_slice = 0.3;
  times.merge_cluster = has_many_rows ? 1.2 : 1.6;
  times.chooses_by_merge = has_many_rows && !descriptor.is_gated();
  return times;
}

BlockPlan make_block(const W4a16Gemm& descriptor) {
  BlockPlan block = begin_block(descriptor, "sm90");
  block.warps = gemm_lanes::kStrips;
  block.threads = 32 * (block.warps + Producers::kWarpgroup);
  block.blocks_per_sm = 1;
  block.needs_row_stride = true;
  block.counters_per_tile = counters_per_tile(descriptor, block.warps);
  if (reorders_activations(descriptor)) block.merge_counters -= kReorderCounters;
  block.has_clusters = !descriptor.is_gated() && descriptor.tile_m >= 16;
  block.tiles = box_tiles(descriptor);
  block.times = times_of(descriptor);
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
  return up_sums_at(stages) + up_columns * block.descriptor.tile_m * static_cast<int>(sizeof(float));
}

WidePlan make_wide_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  WidePlan plan;
  plan.block = make_block(descriptor);
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

}  // namespace cubit::ops::w4a16_gemm::sm90
