// What `explain` says about the narrow kernel.
#include <fmt/format.h>

#include "ops/gemm/report.hpp"
#include "ops/gemm/sm90/report.hpp"
#include "ops/gemm/sm90/sm90.hpp"

namespace cubit::ops::gemm::sm90 {
namespace {

Decision warp_decision(const NarrowPlan& plan) {
  const int consumers = plan.block.k_partitions;
  return {
      "warps", fmt::format("{} consumer warps, {} producer warps", consumers, plan.producers.warps),
      fmt::format("each consumer warp has all rows and columns of the block, so that activations are loaded once for "
                  "all columns, and every {}th stage; all stages are in one ring",
                  consumers)};
}

Decision stages_decision(const NarrowPlan& plan) {
  return {"stages", std::to_string(plan.block.stages),
          fmt::format("of {} bytes, equally many for each producer warp: more stages than the memory's latency needs "
                      "keep the room from other blocks",
                      plan.stage_bytes() + plan.scale_bytes())};
}

void add_memory_map(PlanReport& report, const NarrowPlan& plan) {
  const BlockPlan& block = plan.block;
  const int stages = block.stages;
  for (int i = 0; i < stages; ++i) add_stage_regions(report, block, i, i * plan.stage_bytes());
  for (int i = 0; i < stages; ++i)
    add_scale_regions(report, block, fmt::format("stage {}: ", i), plan.scales_at(stages) + i * plan.scale_bytes());
  add_region(report, "barriers", plan.barriers_at(stages), plan.barrier_bytes(stages));
  add_rest(report, block, "partial sums of the consumer warps", plan.sums_at(stages));
}

}  // namespace

void write_report(PlanReport& report, const NarrowPlan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture) {
  const BlockPlan& block = plan.block;
  add_tiles(report, block, plan.weights.accesses);
  add_memory_map(report, plan);
  add_decisions(report, block, mma_sync_tile_decision(block), operands, warp_decision(plan), stages_decision(plan));
  gemm::add_decisions(report, {decomposition_decision(block), merge_decision(block, 1)});
  add_mma_sync_fragments(report, block.descriptor, architecture);
  add_fragments(report, plan.weights.fragments);
}

}  // namespace cubit::ops::gemm::sm90
