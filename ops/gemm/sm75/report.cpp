// Which tiles and architectures family sm75 serves, and what `explain` says about its plans.
#include "ops/gemm/report.hpp"

#include <fmt/format.h>

#include "ops/gemm/sm75/sm75.hpp"

namespace cubit::ops::gemm::sm75 {
namespace {

constexpr int kMergedTiles = 1;

Decision stages_decision(const BlockPlan& block) {
  return {"stages", std::to_string(block.stages),
          fmt::format("of {} bytes: the next stage is in registers, and a second stage in shared memory would take the "
                      "room of a block",
                      mma_sync::stage_bytes(block))};
}

std::string why_spills_are_allowed(const GemmDescriptor& descriptor, const codegen::Architecture& architecture) {
  if (descriptor.tile_m <= 32 || !architecture.cp_async) return "";
  return fmt::format(
      "for a device with cp.async the compiler may need a few registers more than 64 rows and copies leave, up to {} "
      "bytes of stores and loads; such a device has family sm80",
      kMostSpilledBytes);
}

}  // namespace

std::optional<BrokenRule> why_no_tile(const Tile& tile) {
  if (auto broken = why_too_many_rows(tile.rows)) return broken;
  if (tile.columns == gemm_lanes::kBlockColumns) return std::nullopt;
  return BrokenRule{fmt::format("its blocks have 256 columns, not {}", tile.columns), "leave tile_n or family out"};
}

std::optional<std::string> why_not(const codegen::Architecture& architecture) {
  if (!architecture.ldmatrix) return "it needs ldmatrix";
  return std::nullopt;
}

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  return mma_sync::make_source(plan, kMergedTiles, split_k_role(plan.block.descriptor), architecture);
}

void write_report(PlanReport& report, const Plan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture) {
  const BlockPlan& block = plan.block;
  mma_sync::describe(report, plan, architecture);
  mma_sync::add_decisions(report, plan, operands, mma_sync::warp_decision(plan), stages_decision(block), architecture);
  add_decisions(report, {decomposition_decision(block),
                         merge_decision(block, kMergedTiles),
                         {"copies in registers", fmt::format("{} registers of a thread", plan.held_registers),
                          "without cp.async the next stage waits in registers while the block multiplies the current "
                          "stage, and is stored afterwards"}});
  report.spills_allowed_because = why_spills_are_allowed(block.descriptor, architecture);
}

}  // namespace cubit::ops::gemm::sm75
