// From a plan to the kernel's text. Pure.
#include "ops/w4a16_gemm/source.hpp"

#include <fmt/format.h>

#include "ops/w4a16_gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops::w4a16_gemm::sm90_persistent {
namespace {

void add_weights(codegen::PlanHeader& header, const W4a16Gemm& descriptor) {
  if (descriptor.is_dense()) {
    header.include("weight_format/dense_operand.cuh")
        .alias("Weights", fmt::format("cubit::DenseOperand<{}>", descriptor.is_gated()));
    return;
  }
  const char* const type = has_words_by_n(descriptor) ? "cubit::W4OperandByN" : "cubit::W4OperandByK";
  header.include("weight_format/w4_register_operand.cuh")
      .alias("Weights", fmt::format("{}<Element, word_stage, {}, {}, {}, {}>", type, descriptor.is_gated(),
                                    descriptor.group_size, stores_zeros(descriptor), zero_offset(descriptor)));
}

void add_epilogue(codegen::PlanHeader& header, const Plan& plan) {
  const W4a16Gemm& descriptor = plan.block.descriptor;
  header.include("gemm/staged_epilogue.cuh")
      .layout("staging", plan.staging)
      .alias("Scaling", "cubit::UnscaledSums")
      .alias("Epilogue", fmt::format("cubit::StagedEpilogue<Element, Weights, Scaling, {}, staging, {}, {}, {}, {}>",
                                     function_type(descriptor.function), plan.store_rows, descriptor.is_gated(),
                                     descriptor.bias, descriptor.residual));
}

}  // namespace

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  const BlockPlan& block = plan.block;
  const W4a16Gemm& descriptor = block.descriptor;
  codegen::PlanHeader header(descriptor.text());
  header.include("core/types.cuh")
      .include("gemm/shared_activations.cuh")
      .include("gemm/warpgroup_product.cuh")
      .include("gemm/grouped_tiles.cuh")
      .constant("kTokens", descriptor.tile_m)
      .constant("kThreads", block.threads)
      .constant("kStages", block.stages)
      .constant("kStageBytes", plan.stage_bytes())
      .constant("kStagingAt", plan.staging_at(block.stages))
      .constant("kBarriersAt", plan.barriers_at(block.stages))
      .constant("kProducerRegisters", kProducerRegisters)
      .constant("kConsumerRegisters", kConsumerRegisters)
      .flag("kWordsAhead", loads_words_ahead(descriptor))
      .flag("kOverlaps", architecture.kernel_overlap)
      .layout("word_stage", block.tiles.words)
      .alias("Element", element_type(descriptor.element))
      .alias("Activations", "cubit::SharedActivations<kTokens>")
      .alias("Product", "cubit::Float32Product<Element, kTokens>")
      .alias("Tiles", "cubit::GroupedTiles");
  add_weights(header, descriptor);
  add_epilogue(header, plan);
  return assemble_source(block, "kernels/sm90_persistent_gemm.cuh", header, architecture, "persistent_gemm");
}

}  // namespace cubit::ops::w4a16_gemm::sm90_persistent
