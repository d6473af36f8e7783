// What `explain` says about the wide kernel.
#include <fmt/format.h>

#include "ops/gemm/report.hpp"
#include "ops/gemm/sm90/report.hpp"
#include "ops/gemm/sm90/sm90.hpp"

namespace cubit::ops::gemm::sm90 {
namespace {

Decision tile_decision(const GemmDescriptor& descriptor) {
  return {"tile", fmt::format("{} columns x {} rows", descriptor.tile_n, descriptor.tile_m),
          "weights are the A operand of wgmma, from registers; all rows are the B operand, in shared memory, where the "
          "copy has put them"};
}

Decision warp_decision(const WidePlan& plan) {
  return {
      "warps", fmt::format("{} consumer warps, {} producer warps", plan.block.warps, plan.producers.warps),
      fmt::format("four consumer warps multiply 128 columns together, in two tiles that alternate; one producer warp "
                  "issues copies, three put activations in the order of the words{}; the producers give registers "
                  "to the consumers: {} per thread of a consumer, and {} of a producer",
                  plan.block.reorders_activations ? ", in the first stages" : "", plan.producers.consumer_registers,
                  plan.producers.registers)};
}

void add_memory_map(PlanReport& report, const WidePlan& plan) {
  const BlockPlan& block = plan.block;
  for (int i = 0; i < block.stages; ++i) {
    const int base = i * plan.stage_bytes();
    add_stage_regions(report, block, i, base);
    add_scale_regions(report, block, fmt::format("stage {}: ", i), base + block.tiles.scales_at());
  }
  add_region(report, "barriers", plan.barriers_at(block.stages), plan.barrier_bytes(block.stages));
  add_rest(report, block, "sums of the up-projection columns", plan.up_sums_at(block.stages));
}

}  // namespace

void write_report(PlanReport& report, const WidePlan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture&) {
  const BlockPlan& block = plan.block;
  add_tiles(report, block, plan.weights.accesses);
  add_memory_map(report, plan);
  add_decisions(report, block, tile_decision(block.descriptor), operands, warp_decision(plan),
                {"stages", std::to_string(block.stages),
                 fmt::format("of {} bytes: as many as shared memory holds", plan.stage_bytes())});
  gemm::add_decisions(report, {decomposition_decision(block), merge_decision(block, plan.merged_tiles)});
  add_fragments(report, {"wgmma.m64k16 A, 16-bit", "wgmma.m64n8 D, 32-bit"});
  add_fragments(report, plan.weights.fragments);
}

}  // namespace cubit::ops::gemm::sm90
