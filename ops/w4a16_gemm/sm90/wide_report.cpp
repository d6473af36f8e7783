// What `explain` says about the wide kernel.
#include <fmt/format.h>

#include "ops/w4a16_gemm/report.hpp"
#include "ops/w4a16_gemm/sm90/report.hpp"
#include "ops/w4a16_gemm/sm90/sm90.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm90 {
namespace {

Decision tile_decision(const W4a16Gemm& descriptor) {
  return {"tile", fmt::format("{} columns x {} rows", descriptor.tile_n, descriptor.tile_m),
          "weights are the A operand of wgmma, from registers; all rows are the B operand, in shared memory, where the "
          "copy has put them"};
}

Decision word_order(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) return word_order_decision(descriptor);
  if (reorders_activations(descriptor)) {
    return {"word order",
            "all blocks together put activations in pairs (j, j + 4) once per launch, in the workspace; a block itself "
            "does so for its first stages",
            "so a word of 8 k's becomes an operand after two instructions per pair; with so many rows the order would "
            "cost more if every block made it for all stages"};
  }
  return {"word order", "three producer warps put activations in pairs (j, j + 4)",
          "so a word of 8 k's becomes an operand after two instructions per pair; the producers are stages ahead, so "
          "that no consumer waits for the order"};
}

Decision warp_decision(const WidePlan& plan) {
  return {
      "warps", fmt::format("{} consumer warps, {} producer warps", plan.block.warps, plan.producers.warps),
      fmt::format("four consumer warps multiply 128 columns together, in two tiles that alternate; one producer warp "
                  "issues copies, three put activations in the order of the words{}; the producers give registers "
                  "to the consumers: {} per thread of a consumer, and {} of a producer",
                  reorders_activations(plan.block.descriptor) ? ", in the first stages" : "",
                  plan.producers.consumer_registers, plan.producers.registers)};
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

std::vector<const char*> fragments(const W4a16Gemm& descriptor) {
  std::vector<const char*> names = {"wgmma.m64k16 A, 16-bit", "wgmma.m64n8 D, 32-bit"};
  if (has_words_by_n(descriptor)) names.push_back("ldmatrix.x4.trans");
  return names;
}

}  // namespace

void write_report(WidePlan& plan, const codegen::Architecture&) {
  PlanReport& report = plan.report;
  const BlockPlan& block = plan.block;
  const W4a16Gemm& descriptor = block.descriptor;
  add_tiles(report, block,
            {word_accesses(block), activation_accesses(plan), scale_accesses(block), zero_accesses(block)});
  add_memory_map(report, plan);
  auto layouts = layout_decisions(block.tiles, why_box_layouts(block.tiles));
  report.decisions = {tile_decision(descriptor),
                      tile_m_decision(descriptor),
                      operand_decision(descriptor),
                      zero_decision(descriptor),
                      word_order(descriptor),
                      warp_decision(plan),
                      copy_decision(),
                      layouts[0],
                      layouts[1],
                      {"stages", std::to_string(block.stages),
                       fmt::format("of {} bytes: as many as shared memory holds", plan.stage_bytes())},
                      block_decision(block),
                      decomposition_decision(block),
                      merge_decision(block, plan.merged_tiles)};
  add_fragments(report, fragments(descriptor));
}

}  // namespace cubit::ops::w4a16_gemm::sm90
