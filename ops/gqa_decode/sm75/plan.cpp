// Kernel family sm75: from a descriptor and an architecture to a plan, its report and the plan header.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/gqa_decode/report.hpp"
#include "ops/gqa_decode/sm75/sm75.hpp"
#include "ops/text.hpp"

namespace cubit::ops::gqa_decode::sm75 {
namespace {

constexpr int kMostRegistersOfTiles = 192;  // counted without copies; the rest is for a part of the next tile
constexpr int kStages = 2;                  // one in use, and one that registers are stored to
constexpr const char* kCopies = "stores of rows";

/// As many vector copies of the next tile as the loop leaves registers for. The compilers for later architectures keep
/// more in registers besides, and an address of each vector in two registers.
int choose_held_vectors(const Plan& plan, const codegen::Architecture& architecture) {
  const bool is_later = architecture.capability >= 100;
  const int spare = is_later ? 64 : 40;
  constexpr int kMost = 32;  // each vector adds code
  const int each = plan.copy_bytes / 4 + (is_later ? 2 : 0);
  const int free = architecture.registers_per_thread - spare - count_registers(plan.descriptor, plan.head_tiles(), 0);
  return std::clamp(free / each, 1, std::min(kMost, count_copies(plan)));
}

Decision held_decision(const Plan& plan) {
  const int vectors = count_copies(plan);
  if (plan.held_vectors == vectors) {
    return {"copies in registers", fmt::format("all {} of a lane", vectors),
            "without cp.async the next tile waits in registers until the current tile is computed, and is stored then"};
  }
  return {"copies in registers", fmt::format("{} of {} of a lane", plan.held_vectors, vectors),
          "without cp.async the next tile waits in registers, which hold no more of it; the rest is loaded and stored "
          "immediately"};
}

std::vector<Decision> decisions_of(const Plan& plan, const codegen::Architecture& architecture) {
  std::vector<Decision> decisions = {tile_decision(plan, architecture),
                                     head_group_decision(plan, "", register_limit(plan))};
  for (Decision& decision : operand_decisions(plan, architecture)) decisions.push_back(std::move(decision));
  decisions.push_back(warp_decision(plan, architecture));
  decisions.push_back(copy_decision(plan));
  decisions.push_back(stage_decision(plan));
  decisions.push_back({"stages", std::to_string(plan.stages),
                       fmt::format("one in use, and one to which the next tile is stored, at {}",
                                   counted(plan.blocks_per_sm, "block"))});
  decisions.push_back(block_decision(plan, plan.threads(), architecture, ""));
  decisions.push_back(warp_ring::split_decision());
  add_middle_decision(decisions, plan.descriptor);
  if (plan.recomputes_lanes) decisions.push_back(lane_decision());
  decisions.push_back(held_decision(plan));
  add_role_decisions(decisions, plan.descriptor, warp_ring::page_decision());
  return decisions;
}

}  // namespace

Plan make_plan(const GqaDecode& descriptor, const codegen::Architecture& architecture, PlanReport report) {
  Plan plan;
  begin_plan(plan, descriptor, architecture, std::move(report));
  const int tiles = (plan.heads() + 7) / 8;
  divide_heads(plan, count_head_tiles(descriptor, tiles, kMostRegistersOfTiles), 1);
  plan.copy_bytes = choose_copy_bytes(descriptor);
  choose_layouts(plan, kCopies);
  plan.held_vectors = choose_held_vectors(plan, architecture);
  plan.counted_registers =
      std::min(count_registers(descriptor, plan.head_tiles(), 0) + plan.held_vectors * plan.copy_bytes / 4,
               architecture.registers_per_thread);
  choose_stages(plan, architecture, kStages, kStages, 0);
  require_stages(plan, architecture);
  write_report(plan, {.tiles = report_tiles(plan, kCopies, {}, {}),
                      .memory = memory_map(plan, 0, {}),
                      .decisions = decisions_of(plan, architecture),
                      .fragments = mma_fragments(plan, architecture)});
  return plan;
}

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  // No offsets are kept: each copy is tested for its row's existence as well, and that is the only path.
  return warp_ring::make_source(
      plan,
      {.header = "pipeline/tile_copies_registers.cuh",
       .type = fmt::format("cubit::HeldTileCopies<kCopyBytes, kStages, {}>", plan.held_vectors)},
      architecture);
}

}  // namespace cubit::ops::gqa_decode::sm75
