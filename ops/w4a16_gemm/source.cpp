// From a plan to the kernel's text: the roles that it chooses and the constants of its template. Pure.
#include <fmt/format.h>

#include "codegen/plan_header.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/embedded.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

struct NumberFormat {
  const char* header;
  const char* type;
  bool has_spread = false;  ///< takes spreads_words
};
NumberFormat number_format(const Plan& plan) {
  const W4a16Gemm& descriptor = plan.descriptor;
  if (plan.family == "sm90")
    return {"weight_format/w4_copied_words.cuh",
            descriptor.format == W4Format::awq ? "W4CopiedWordsByN" : "W4CopiedWordsByK", true};
  if (descriptor.bits == 8) return {"weight_format/w8_words_by_k.cuh", "W8WordsByK"};
  if (descriptor.format == W4Format::awq) return {"weight_format/w4_words_by_n.cuh", "W4WordsByN"};
  return {"weight_format/w4_words_by_k.cuh", "W4WordsByK"};
}

/// The template: family sm75 has that of sm80, with another role for copies.
std::string_view kernel_of(const Plan& plan) {
  if (has_copied_teams(plan)) return "kernels/sm90_w4a16_gemm_narrow.cuh";
  return plan.family == "sm90" ? "kernels/sm90_w4a16_gemm.cuh" : "kernels/sm80_w4a16_gemm.cuh";
}

std::string_view function_type(GemmFunction function) {
  switch (function) {
    case GemmFunction::none:
      return "cubit::Identity";
    case GemmFunction::relu:
      return "cubit::Relu";
    case GemmFunction::gelu:
      return "cubit::GeluExact";
    case GemmFunction::gelu_tanh:
      return "cubit::GeluTanh";
    case GemmFunction::silu:
    case GemmFunction::silu_gate:
      break;
  }
  return "cubit::Silu";
}

}  // namespace

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  const W4a16Gemm& descriptor = plan.descriptor;
  const NumberFormat format = number_format(plan);
  codegen::PlanHeader header(descriptor.text());
  const bool is_90 = plan.family == "sm90";
  const bool is_75 = plan.family == "sm75";
  header.include(format.header).include("gemm/epilogue.cuh").include("core/types.cuh");
  const bool has_own_rings = plan.teams > 1 && !is_90;
  header.include(has_own_rings                ? "gemm/intra_block_split_k.cuh"
                 : descriptor.batch_invariant ? "gemm/batch_invariant_split_k.cuh"
                                              : "gemm/split_k.cuh");
  if (!is_90) header.include(is_75 ? "pipeline/stage_copies_registers.cuh" : "pipeline/stage_copies_async.cuh");
  header.constant("kGroup", descriptor.group_size)
      .constant("kTileM", descriptor.tile_m)
      .constant("kTileN", descriptor.tile_n)
      .constant("kWarps", plan.warps)
      .constant("kTeams", plan.teams)
      .constant("kStages", plan.stages)
      .constant("kBlocksPerSm", plan.blocks_per_sm)
      .constant("kCopyBytes", plan.copy_bytes)
      .flag("kOverlaps", architecture.kernel_overlap)
      .constant("kMergedTiles", plan.merged_tiles)
      .flag("kActivationOrder", descriptor.activation_order)
      .flag("kStoredZeros", stores_zeros(descriptor))
      .constant("kZeroOffset", zero_offset(descriptor))
      .constant("kActivationsAt", plan.activations_at())
      .constant("kScalesAt", plan.scales_at())
      .constant("kZerosAt", plan.zeros_at())
      .constant("kStageBytes", plan.stage_bytes())
      .layout("word_stage", plan.words)
      .layout("activation_stage", plan.activations);
  if (has_copied_teams(plan)) {
    header.constant("kFactorsAt", plan.stages * plan.stage_bytes())
        .constant("kFactorBytes", plan.factor_bytes())
        .flag("kSumsApart", plan.has_sums_apart)
        .flag("kSharesK", shares_k(plan))
        .constant("kRests", plan.copy_rests);
  }
  if (is_90) {
    header.constant("kBarriersAt", plan.barriers_at(plan.stages))
        .constant("kUpsAt", plan.ups_at(plan.stages))
        .flag("kSpreadWords", spreads_words(descriptor))
        .flag("kReorders", reorders_activations(plan))
        .constant("kCopyWarps", plan.copy_warps)
        .constant("kCopyRegisters", plan.copy_registers)
        .constant("kMultiplyRegisters", plan.multiply_registers);
  } else {
    header.constant("kRingBytes", plan.ring_bytes(plan.stages));
    header.alias("Copies", is_75 ? "cubit::HeldStageCopies" : "cubit::AsyncStageCopies<kStages>");
  }
  header.alias("Element", descriptor.element == Element::bf16 ? "cubit::Bfloat16" : "cubit::Half")
      .alias("Format", fmt::format("cubit::{}<Element, word_stage, activation_stage, kStoredZeros, kZeroOffset{}>",
                                   format.type, format.has_spread ? ", kSpreadWords" : ""))
      .alias("Epilogue", fmt::format("cubit::GemmEpilogue<Element, {}, {}, {}, {}>", function_type(descriptor.function),
                                     descriptor.is_gated(), descriptor.bias, descriptor.residual))
      .alias("Scheduler", has_own_rings                ? "cubit::IntraBlockSplitKScheduler"
                          : descriptor.batch_invariant ? "cubit::BatchInvariantScheduler"
                          : descriptor.atomic_splits   ? "cubit::AtomicSplitKScheduler"
                                                       : "cubit::TileScheduler");
  return codegen::assemble(
      descriptor.text(), templates::find(kernel_of(plan)), header.text(), architecture, "w4a16_gemm",
      {.threads = plan.threads(),
       .dynamic_shared_memory = plan.shared_memory,
       .cluster_blocks = has_pairs(plan) ? 2 : 1,
       .waits_for_previous = architecture.kernel_overlap,
       .shared_memory_limit = architecture.kernel_overlap ? architecture.shared_memory_per_block : 0},
      templates::embedded());
}

}  // namespace cubit::ops::w4a16_gemm
