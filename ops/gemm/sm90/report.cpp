// Parts of a report that both kernels of family sm90 have.
#include "ops/gemm/sm90/report.hpp"

#include <fmt/format.h>

#include <utility>

#include "ops/gemm/report.hpp"

namespace cubit::ops::gemm::sm90 {

namespace {

Decision block_decision(const BlockPlan& block) {
  return {"blocks_per_sm", "1", fmt::format("the block's ring takes {} bytes of shared memory", block.shared_memory)};
}

const char* why_box_layouts(const StageTiles& tiles) {
  return tiles.words.swizzle.bits > 0 ? "as TMA box copies write the tensor, swizzled within the rows of a box"
                                      : "as TMA box copies write the tensor; rows are an odd number of 16-byte chunks";
}

}  // namespace

void add_decisions(PlanReport& report, const BlockPlan& block, Decision tile, const std::vector<Decision>& operands,
                   Decision warps, Decision stages) {
  gemm::add_decisions(report, {std::move(tile), tile_m_decision(block.descriptor)});
  gemm::add_decisions(report, operands);
  gemm::add_decisions(report, {std::move(warps),
                               {"copy of words", "TMA box copies", "they take no instructions of the consumer warps"}});
  gemm::add_decisions(report, layout_decisions(block.tiles, why_box_layouts(block.tiles)));
  gemm::add_decisions(report, {std::move(stages), block_decision(block)});
}

void add_stage_regions(PlanReport& report, const BlockPlan& block, int i, int base) {
  add_region(report, fmt::format("stage {}: words", i), base, block.tiles.words.size());
  add_region(report, fmt::format("stage {}: activations", i), base + block.tiles.activations_at(),
             block.tiles.activations.size());
}

void add_rest(PlanReport& report, const BlockPlan& block, const char* name, int at) {
  if (at < block.shared_memory) add_region(report, name, at, block.shared_memory - at);
}

}  // namespace cubit::ops::gemm::sm90
