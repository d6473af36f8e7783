// From a descriptor and an architecture to a plan. Pure.
#include <algorithm>
#include <utility>

#include "ops/gemm/boxes.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"

namespace cubit::ops::gemm::sm90_persistent {
namespace {

constexpr int kFewestStages = 3;
constexpr int kMostStages = 12;  // more than the memory's latency needs
constexpr int kStageBarrierBytes = 2 * 8;
constexpr int kExchangeBarrierBytes = 3 * 8;

BlockPlan make_block(const GemmDescriptor& descriptor, const Weights& weights) {
  BlockPlan block = begin_block(descriptor, weights, "sm90_persistent");
  block.warps = persistent_lanes::kConsumerWarps;
  block.threads = 128 * (kWarpgroups + 1);
  block.blocks_per_sm = 1;
  block.splits_k = true;
  block.has_clusters = true;
  block.is_persistent = true;
  block.needs_row_stride = true;
  block.tiles.activations = box_layout(descriptor.tile_m, activation_row_bytes(block), activation_row_bytes(block));
  return block;
}

/// A table of scales and zeros of as many groups as leave room for the pipeline: consumer warps hold two stages, or
/// three if they load words ahead, and as many more are in flight.
void choose_table(Plan& plan, const codegen::Architecture& architecture) {
  const int row_bytes = plan.weights.group_row_bytes;
  if (row_bytes == 0) return;
  const int room = architecture.shared_memory_per_block - plan.shared_memory(loads_words_ahead(plan) ? 6 : 4);
  plan.block.most_groups = std::min(kMostTableGroups, room / row_bytes);
  plan.block.factor_table_bytes = (plan.block.most_groups * row_bytes + 15) / 16 * 16;
}

}  // namespace

/// Half of a tile's rows is stored where a cluster splits k, and a staging tile has that half, or half of it if shared
/// memory has better uses: outputs of four bytes, or a table of scales and zeros, would take the memory of a pipeline
/// stage.
int store_rows(const GemmDescriptor& descriptor) {
  const int rows = descriptor.tile_m < 192 ? descriptor.tile_m / 2 : descriptor.tile_m / 4;
  const bool saves_memory = descriptor.output_bytes == 4 || has_indexed_groups(descriptor);
  return saves_memory && rows % 16 == 0 ? rows / 2 : rows;
}

bool loads_words_ahead(const Plan& plan) {
  return plan.block.descriptor.tile_m < 256 && !plan.weights.in_shared_memory;
}

/// The activations of the next stage begin at a multiple of the swizzle's period.
int Plan::stage_bytes() const {
  constexpr int kPeriod = 1024;
  return (activation_bytes() + block.tiles.words.size() + weights.index_bytes + kPeriod - 1) / kPeriod * kPeriod;
}

int Plan::shared_memory(int stages) const {
  return barriers_at(stages) + stages * kStageBarrierBytes + kExchangeBarrierBytes;
}

Plan make_plan(const GemmDescriptor& descriptor, Weights weights, const codegen::Architecture& architecture) {
  Plan plan;
  plan.block = make_block(descriptor, weights);
  plan.weights = std::move(weights);
  plan.store_rows = store_rows(descriptor);
  constexpr int kMostBoxBytes = 128;
  const int output_bytes = descriptor.output_bytes * persistent_lanes::warpgroup_outputs(descriptor.is_gated());
  plan.staging = box_layout(plan.store_rows, output_bytes, std::min(output_bytes, kMostBoxBytes));
  constexpr int kThreadBytes = 16 * 128;
  plan.exchange = {descriptor.tile_m / 16, kThreadBytes, kThreadBytes, {}};
  choose_table(plan, architecture);
  // Clusters that divide k exchange sums in the memory of the stages.
  const int exchange_bytes = 2 * kWarpgroups * plan.exchange.size();
  const int fewest = std::max(kFewestStages, (exchange_bytes + plan.stage_bytes() - 1) / plan.stage_bytes());
  for (int stages = fewest; stages <= kMostStages; ++stages) {
    if (plan.shared_memory(stages) > architecture.shared_memory_per_block) break;
    plan.block.stages = stages;
    plan.block.shared_memory = plan.shared_memory(stages);
  }
  require_stages(plan.block, architecture);
  return plan;
}

}  // namespace cubit::ops::gemm::sm90_persistent
