// Kernel family sm75: which descriptors it serves, and its explanations.
#include <fmt/format.h>

#include "ops/planned_specialisation.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/report.hpp"
#include "ops/w4a16_gemm/sm75/sm75.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm75 {
namespace {

using GemmSpecialisation = PlannedSpecialisation<Plan, cubit_w4a16_gemm_arguments, workspace_bytes, encode_launch>;

constexpr int kMergedTiles = 1;

Decision stages_decision(const BlockPlan& block) {
  return {"stages", std::to_string(block.stages),
          fmt::format("of {} bytes: the next stage is in registers, and a second stage in shared memory would take the "
                      "room of a block",
                      mma_sync::stage_bytes(block))};
}

std::string why_spills_are_allowed(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  if (descriptor.tile_m <= 32 || !architecture.cp_async) return "";
  return fmt::format(
      "for a device with cp.async the compiler may need a few registers more than 64 rows and copies leave, up to {} "
      "bytes of stores and loads; such a device has family sm80",
      kMostSpilledBytes);
}

class Sm75Family final : public GemmFamily {
 public:
  std::string_view name() const override { return "sm75"; }
  std::string_view accepted() const override { return "sm_75 and later"; }
  bool is_modelled() const override { return false; }

  std::optional<BrokenRule> why_not_descriptor(const W4a16Gemm& descriptor) const override {
    if (descriptor.is_dense()) return rule_of_dense_weights();
    if (has_many_rows(descriptor)) return rule_of_many_rows(descriptor);
    if (is_narrow(descriptor))
      return BrokenRule{fmt::format("its blocks have 256 columns, not {}", descriptor.tile_n),
                        "leave tile_n or family out"};
    if (descriptor.element != Element::fp16)
      return BrokenRule{"it multiplies fp16 alone, as the tensor cores of sm_75 do",
                        "ask for element=fp16, or leave family out"};
    return std::nullopt;
  }
  std::optional<std::string> why_not(const W4a16Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (!architecture.ldmatrix) return "it needs ldmatrix";
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
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
        mma_sync::make_source(plan.kernel, kMergedTiles, split_k_role(descriptor), architecture);
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
                      mma_sync::warp_decision(plan.kernel),
                      mma_sync::copy_decision(plan.kernel),
                      layouts[0],
                      layouts[1],
                      stages_decision(block),
                      mma_sync::block_decision(plan.kernel, architecture),
                      decomposition_decision(block),
                      merge_decision(block, kMergedTiles),
                      {"copies in registers", fmt::format("{} registers of a thread", plan.held_registers),
                       "without cp.async the next stage waits in registers while the block multiplies the current "
                       "stage, and is stored afterwards"}};
  report.spills_allowed_because = why_spills_are_allowed(descriptor, architecture);
}

const GemmFamily& family() {
  static const Sm75Family kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w4a16_gemm::sm75
