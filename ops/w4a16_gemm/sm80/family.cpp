// Kernel family sm80: which descriptors it serves, and its explanations.
#include <fmt/format.h>

#include "ops/planned_specialisation.hpp"
#include "ops/text.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/report.hpp"
#include "ops/w4a16_gemm/sm80/sm80.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm80 {
namespace {

using GemmSpecialisation = PlannedSpecialisation<Plan, cubit_w4a16_gemm_arguments, workspace_bytes, encode_launch>;

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

class Sm80Family final : public GemmFamily {
 public:
  std::string_view name() const override { return "sm80"; }
  std::string_view accepted() const override { return "sm_80 and later"; }

  std::optional<BrokenRule> why_not_descriptor(const W4a16Gemm& descriptor) const override {
    if (descriptor.is_dense()) return rule_of_dense_weights();
    if (has_many_rows(descriptor)) return rule_of_many_rows(descriptor);
    if (descriptor.tile_n == 256 || descriptor.tile_n == 64 || descriptor.tile_n == 32) return std::nullopt;
    return BrokenRule{fmt::format("its blocks have 256, 64 or 32 columns, not {}", descriptor.tile_n),
                      "ask for tile_n=256, 64 or 32, or leave family out"};
  }
  std::optional<std::string> why_not(const W4a16Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    if (!architecture.cp_async) return "it needs cp.async, which sm_80 brought";
    if (!architecture.ldmatrix) return "it needs ldmatrix";
    if (!architecture.has_mma({16, 8, 16, codegen::MmaType::fp16})) return "it needs mma.sync m16n8k16";
    return std::nullopt;
  }
  BlockPlan block_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) const override {
    return make_plan(descriptor, architecture).kernel.block;
  }
  std::shared_ptr<const Specialisation> plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const override {
    Plan plan = make_plan(descriptor, architecture);
    plan.report = std::move(report);
    write_report(plan, architecture);
    codegen::KernelSource source =
        mma_sync::make_source(plan.kernel, plan.merged_tiles, split_k_role_of(plan.kernel.block), architecture);
    return std::make_shared<GemmSpecialisation>(std::move(plan), std::move(source));
  }
};

}  // namespace

void write_report(Plan& plan, const codegen::Architecture& architecture) {
  PlanReport& report = plan.report;
  const BlockPlan& block = plan.kernel.block;
  const W4a16Gemm& descriptor = block.descriptor;
  mma_sync::describe(report, plan.kernel, architecture);
  auto layouts = layout_decisions(block.tiles, mma_sync::kSearchedLayouts);
  report.decisions = {mma_sync_tile_decision(block),
                      tile_m_decision(descriptor),
                      operand_decision(descriptor),
                      zero_decision(descriptor),
                      word_order_decision(descriptor),
                      consumer_warp_decision(plan.kernel),
                      mma_sync::copy_decision(plan.kernel),
                      layouts[0],
                      layouts[1],
                      stages_decision(block),
                      mma_sync::block_decision(plan.kernel, architecture),
                      decomposition_decision(block),
                      merge_decision(block, plan.merged_tiles)};
}

const GemmFamily& family() {
  static const Sm80Family kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w4a16_gemm::sm80
