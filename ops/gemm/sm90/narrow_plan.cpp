// From a descriptor and an architecture to a plan of the narrow kernel. Pure.
#include <utility>

#include "ops/gemm/boxes.hpp"
#include "ops/gemm/sm90/sm90.hpp"

namespace cubit::ops::gemm::sm90 {
namespace {

constexpr int kPartitions = 8;
constexpr int kMostStages = 24;             // 32 columns and 8 rows have room for more
constexpr int kStageStep = 4;               // each of up to four producer warps has as many stages
constexpr int kMostRingBytes = 154 * 1024;  // see choose_ring

BlockPlan make_block(const GemmDescriptor& descriptor, const Weights& weights) {
  BlockPlan block = begin_block(descriptor, weights, "sm90");
  block.warps = 1;
  block.k_partitions = kPartitions;
  block.threads = 32 * (kPartitions + Producers::kWarpgroup);
  block.blocks_per_sm = 1;
  block.needs_row_stride = true;
  block.counters_per_tile = output_columns(descriptor, block.strips()) * descriptor.tile_m / 8;
  // Who asks for 224 columns has many columns, and code that is jumped over costs 0.2 us.
  block.splits_k = descriptor.tile_n < 224;
  block.tiles.activations = box_layout(descriptor.tile_m, activation_row_bytes(block), 128);
  return block;
}

/// Not as many stages as fit: more stages than the memory's latency needs only keep the room from other blocks, unless
/// a consumer warp takes longer for a stage than the stage's copies.
void choose_ring(NarrowPlan& plan, const codegen::Architecture& architecture) {
  BlockPlan& block = plan.block;
  const bool is_slow = block.descriptor.tile_n >= 160 && block.descriptor.tile_m > 8;
  const int most_bytes = is_slow ? architecture.shared_memory_per_block : kMostRingBytes;
  for (int stages = kPartitions; stages <= kMostStages; stages += kStageStep) {
    if (plan.shared_memory(stages) > most_bytes) break;
    block.stages = stages;
  }
  require_stages(block, architecture);
  plan.has_separate_sums =
      plan.shared_memory(block.stages) + partition_sum_bytes(block) <= architecture.shared_memory_per_block;
  block.shared_memory = plan.shared_memory(block.stages);
}

}  // namespace

int NarrowPlan::stage_bytes() const { return block.tiles.activations_at() + block.tiles.activations.size(); }

int NarrowPlan::scale_bytes() const { return align_region(block.tiles.zeros_at(0) + block.tiles.zeros.size()); }

int NarrowPlan::shared_memory(int stages) const {
  return sums_at(stages) + (has_separate_sums ? partition_sum_bytes(block) : 0);
}

NarrowPlan make_narrow_plan(const GemmDescriptor& descriptor, Weights weights,
                            const codegen::Architecture& architecture) {
  NarrowPlan plan;
  plan.block = make_block(descriptor, weights);
  plan.producers = {.warps = weights.producer_warps, .registers = 24, .consumer_registers = 240};
  plan.weights = std::move(weights);
  choose_ring(plan, architecture);
  return plan;
}

}  // namespace cubit::ops::gemm::sm90
