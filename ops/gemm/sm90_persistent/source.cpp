// From a plan to the kernel's text. Pure.
#include "ops/gemm/source.hpp"

#include <fmt/format.h>

#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops::gemm::sm90_persistent {
namespace {

Role staged_epilogue(const Plan& plan) {
  const GemmDescriptor& descriptor = plan.block.descriptor;
  return {"gemm/staged_epilogue.cuh",
          fmt::format("cubit::StagedEpilogue<Element, Weights, Scaling, {}, Output, staging, {}, {}, {}, {}>",
                      function_type(descriptor.function), plan.store_rows, descriptor.is_gated(), descriptor.bias,
                      descriptor.residual)};
}

}  // namespace

codegen::KernelSource make_source(const Plan& plan, const codegen::Architecture& architecture) {
  const BlockPlan& block = plan.block;
  const GemmDescriptor& descriptor = block.descriptor;
  const Weights& weights = plan.weights;
  codegen::PlanHeader header(descriptor.text);
  header.include("core/types.cuh")
      .include(weights.activations.header)
      .include(weights.product.header)
      .include("gemm/grouped_tiles.cuh")
      .constant("kTokens", descriptor.tile_m)
      .constant("kThreads", block.threads)
      .constant("kStages", block.stages)
      .constant("kStageBytes", plan.stage_bytes())
      .constant("kStagingAt", plan.staging_at(block.stages))
      .constant("kBarriersAt", plan.barriers_at(block.stages))
      .constant("kProducerRegisters", kProducerRegisters)
      .constant("kConsumerRegisters", kConsumerRegisters)
      .flag("kWordsAhead", loads_words_ahead(plan))
      .flag("kOverlaps", architecture.kernel_overlap)
      .layout("word_stage", block.tiles.words)
      .alias("Element", element_type(descriptor.element))
      .alias("Activations", weights.activations.type)
      .alias("Product", weights.product.type)
      .alias("Tiles", "cubit::GroupedTiles");
  if (block.factor_table_bytes > 0) header.constant("kTableAt", plan.table_at(block.stages));
  header.include(weights.role.header).alias("Weights", weights.role.type);
  const Role scaling = block.row_scaling.value_or(Role{"gemm/scaling.cuh", "cubit::UnscaledSums"});
  const Role epilogue = block.epilogue.value_or(staged_epilogue(plan));
  header.include(scaling.header)
      .include(weights.output.header)
      .include(epilogue.header)
      .layout("staging", plan.staging)
      .alias("Scaling", scaling.type)
      .alias("Output", weights.output.type)
      .alias("Epilogue", epilogue.type);
  return assemble_source(block, "kernels/gemm/sm90_persistent_gemm.cuh", header, architecture, "persistent_gemm");
}

}  // namespace cubit::ops::gemm::sm90_persistent
