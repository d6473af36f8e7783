// The common part of a kernel's plan header. Pure.
#include "ops/gemm/source.hpp"

#include <fmt/format.h>

#include "templates/embedded.hpp"

namespace cubit::ops::gemm {

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

std::string_view element_type(Element element) { return element == Element::bf16 ? "cubit::Bfloat16" : "cubit::Half"; }

namespace {

Role usual_epilogue(const GemmDescriptor& descriptor) {
  return {"gemm/epilogue.cuh", fmt::format("cubit::GemmEpilogue<Element, {}, {}, {}, {}{}>",
                                           function_type(descriptor.function), descriptor.is_gated(), descriptor.bias,
                                           descriptor.residual, descriptor.layers > 1 ? ", cubit::FusedBias" : "")};
}

/// Weights whose groups are indexed are scaled before they are multiplied.
std::string_view scaling_type(const GemmDescriptor& descriptor) {
  if (!descriptor.groups || descriptor.groups->is_indexed) return "cubit::UnscaledSums";
  return descriptor.groups->size == 0 ? "cubit::GroupScaling<true>" : "cubit::GroupScaling<false>";
}

}  // namespace

Role split_k_role(const GemmDescriptor& descriptor) {
  if (descriptor.batch_invariant) return {"gemm/batch_invariant_split_k.cuh", "cubit::BatchInvariantScheduler"};
  return {"gemm/split_k.cuh", descriptor.atomic_splits ? "cubit::AtomicSplitKScheduler" : "cubit::TileScheduler"};
}

codegen::PlanHeader begin_header(const BlockPlan& block, const codegen::Architecture& architecture,
                                 const StageOffsets& offsets, int merged_tiles) {
  const GemmDescriptor& descriptor = block.descriptor;
  codegen::PlanHeader header(descriptor.text);
  header.include("core/types.cuh");
  if (descriptor.groups) header.constant("kGroup", descriptor.groups->size);
  header.constant("kTileM", descriptor.tile_m)
      .constant("kTileN", descriptor.tile_n)
      .constant("kWarps", block.warps)
      .constant("kPartitionsK", block.k_partitions)
      .constant("kStages", block.stages)
      .constant("kStageK", block.stage_k)
      .constant("kBlocksPerSm", block.blocks_per_sm)
      .flag("kOverlaps", architecture.kernel_overlap)
      .constant("kMergedTiles", merged_tiles);
  if (descriptor.groups)
    header.flag("kStoredZeros", descriptor.groups->stores_zeros)
        .constant("kZeroOffset", descriptor.groups->zero_offset);
  header.constant("kActivationsAt", block.tiles.activations_at());
  if (descriptor.groups) header.constant("kScalesAt", offsets.scales_at).constant("kZerosAt", offsets.zeros_at);
  header.constant("kStageBytes", offsets.stage_bytes)
      .layout("word_stage", block.tiles.words)
      .layout("activation_stage", block.tiles.activations)
      .alias("Element", element_type(descriptor.element));
  const Role scaling = block.row_scaling.value_or(Role{"gemm/scaling.cuh", std::string(scaling_type(descriptor))});
  header.include(scaling.header).alias("Scaling", scaling.type);
  const Role epilogue = block.epilogue.value_or(usual_epilogue(descriptor));
  header.include(epilogue.header).alias("Epilogue", epilogue.type);
  return header;
}

void add_operands(codegen::PlanHeader& header, const WeightOperand& weights) {
  if (!weights.role.inner_header.empty()) header.include(weights.role.inner_header);
  header.include(weights.role.header)
      .include(weights.activations.header)
      .alias("Weights", weights.role.type)
      .alias("Activations", weights.activations.type);
}

void add_split_k(codegen::PlanHeader& header, const Role& role) {
  header.include(role.header).alias("Scheduler", role.type);
}

codegen::KernelSource assemble_source(const BlockPlan& block, std::string_view template_name,
                                      const codegen::PlanHeader& header, const codegen::Architecture& architecture,
                                      std::string entry_point) {
  return codegen::assemble(
      block.descriptor.text, templates::find(template_name), header.text(), architecture, std::move(entry_point),
      {.threads = block.threads,
       .dynamic_shared_memory = block.shared_memory,
       .cluster_blocks = block.has_clusters ? 2 : 1,
       .waits_for_previous = architecture.kernel_overlap,
       .shared_memory_limit = architecture.kernel_overlap ? architecture.shared_memory_per_block : 0},
      templates::embedded());
}

}  // namespace cubit::ops::gemm
