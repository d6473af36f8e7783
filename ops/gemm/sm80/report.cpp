// Which tiles and architectures family sm80 serves, and what `explain` says about its plans.
#include "ops/gemm/report.hpp"

#include <fmt/format.h>

#include "ops/gemm/sm80/sm80.hpp"
#include "ops/text.hpp"

namespace cubit::ops::gemm::sm80 {
namespace {

Decision stages_decision(const BlockPlan& block) {
  const int stage_bytes = mma_sync::stage_bytes(block);
  return {"stages", std::to_string(block.stages),
          fmt::format("of {} bytes: {} KiB in flight per SM ({} wanted) at {}", stage_bytes,
                      block.blocks_per_sm * block.k_partitions * (block.stages - 1) * stage_bytes / 1024,
                      kBytesInFlight / 1024, counted(block.blocks_per_sm, "block"))};
}

Decision consumer_warp_decision(const mma_sync::Kernel& kernel) {
  if (kernel.block.k_partitions == 1) return mma_sync::warp_decision(kernel);
  return {"warps", std::to_string(kernel.block.k_partitions),
          "each with all rows and columns of the block, and with a part of k and a ring of stages of its own: no warp "
          "waits for another before the end, where the warps add up their sums in shared memory"};
}

Role split_k_role_of(const BlockPlan& block) {
  if (block.k_partitions > 1) return {"gemm/intra_block_split_k.cuh", "cubit::IntraBlockSplitKScheduler"};
  return split_k_role(block.descriptor);
}

}  // namespace

std::optional<BrokenRule> why_no_tile(const Tile& tile) {
  if (auto broken = why_too_many_rows(tile.rows)) return broken;
  if (tile.columns == 256 || tile.columns == 64 || tile.columns == 32) return std::nullopt;
  return BrokenRule{fmt::format("its blocks have 256, 64 or 32 columns, not {}", tile.columns),
                    "ask for tile_n=256, 64 or 32, or leave family out"};
}

std::optional<std::string> why_not(int activation_bits, codegen::MmaType product_type,
                                   const codegen::Architecture& architecture) {
  if (!architecture.cp_async) return "it needs cp.async, which sm_80 brought";
  if (!architecture.ldmatrix) return "it needs ldmatrix";
  const int k = 256 / activation_bits;
  if (!architecture.has_mma({16, 8, k, product_type})) return fmt::format("it needs mma.sync m16n8k{}", k);
  return std::nullopt;
}

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  return mma_sync::make_source(plan, plan.merged_tiles, split_k_role_of(plan.block), architecture);
}

void write_report(PlanReport& report, const Plan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture& architecture) {
  const BlockPlan& block = plan.block;
  mma_sync::describe(report, plan, architecture);
  mma_sync::add_decisions(report, plan, operands, consumer_warp_decision(plan), stages_decision(block), architecture);
  add_decisions(report, {decomposition_decision(block), merge_decision(block, plan.merged_tiles)});
}

}  // namespace cubit::ops::gemm::sm80
