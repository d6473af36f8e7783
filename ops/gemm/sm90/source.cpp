// From a plan of family sm90 to the kernel's text. Pure.
#include "ops/gemm/source.hpp"

#include "ops/gemm/sm90/sm90.hpp"

namespace cubit::ops::gemm::sm90 {
namespace {

void add_roles(codegen::PlanHeader& header, const GemmDescriptor& descriptor, const Weights& weights,
               const Producers& producers) {
  header.flag("kSpreadWords", weights.spreads_words)
      .constant("kProducerWarps", producers.warps)
      .constant("kProducerRegisters", producers.registers)
      .constant("kConsumerRegisters", producers.consumer_registers);
  add_operands(header, weights);
  add_split_k(header, split_k_role(descriptor));
}

}  // namespace

codegen::KernelSource make_source(const WidePlan& plan, const codegen::Architecture& architecture) {
  const BlockPlan& block = plan.block;
  const int scales_at = block.tiles.scales_at();
  codegen::PlanHeader header = begin_header(
      block, architecture, {scales_at, block.tiles.zeros_at(scales_at), plan.stage_bytes()}, plan.merged_tiles);
  header.include("gemm/warpgroup_product.cuh")
      .alias("Product", "cubit::Float32Product<Element, kTileM>")
      .constant("kBarriersAt", plan.barriers_at(block.stages))
      .constant("kUpSumsAt", plan.up_sums_at(block.stages))
      .flag("kReorders", plan.block.reorders_activations);
  add_roles(header, block.descriptor, plan.weights, plan.producers);
  return assemble_source(block, "kernels/gemm/sm90_gemm.cuh", header, architecture);
}

codegen::KernelSource make_source(const NarrowPlan& plan, const codegen::Architecture& architecture) {
  constexpr int kMergedTiles = 1;
  const BlockPlan& block = plan.block;
  codegen::PlanHeader header =
      begin_header(block, architecture, {0, block.tiles.zeros_at(0), plan.stage_bytes()}, kMergedTiles);
  header.include("gemm/mma_product.cuh")
      .alias("Product", "cubit::Float32MmaProduct<Element>")
      .constant("kFactorsAt", plan.scales_at(block.stages))
      .constant("kFactorBytes", plan.scale_bytes())
      .constant("kBarriersAt", plan.barriers_at(block.stages))
      .constant("kSumsAt", plan.sums_at(block.stages))
      .flag("kSeparateSums", plan.has_separate_sums)
      .flag("kSplitsK", block.splits_k)
      .constant("kProducerPauses", plan.weights.producer_pauses);
  add_roles(header, block.descriptor, plan.weights, plan.producers);
  return assemble_source(block, "kernels/gemm/sm90_narrow_gemm.cuh", header, architecture);
}

}  // namespace cubit::ops::gemm::sm90
