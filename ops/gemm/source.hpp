// The plan header's constants and roles that the templates of all kernel families have in common.
#pragma once

#include <string>
#include <string_view>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "codegen/plan_header.hpp"
#include "ops/gemm/plan.hpp"
#include "ops/gemm/weights.hpp"

namespace cubit::ops::gemm {

/// Byte offsets and sizes in a pipeline stage.
struct StageOffsets {
  int scales_at = 0;
  int zeros_at = 0;
  int stage_bytes = 0;
};

/// Types of the templates: an activation function, and the activations' type.
std::string_view function_type(GemmFunction function);
std::string_view element_type(Element element);

/// How blocks find their work and add up split-K slices: in order, by atomics, or in a fixed order.
Role split_k_role(const GemmDescriptor& descriptor);

/// Begins a plan header with the tile, the pipeline, the layouts of a stage and the epilogue. `merged_tiles`: tiles of
/// 8 rows and 32 columns whose partial sums are loaded together when split-K slices are merged.
codegen::PlanHeader begin_header(const BlockPlan& block, const codegen::Architecture& architecture,
                                 const StageOffsets& offsets, int merged_tiles);

/// Adds the roles of the operands.
void add_operands(codegen::PlanHeader& header, const WeightOperand& weights);

/// Adds the role that divides work among blocks and adds up split-K slices.
void add_split_k(codegen::PlanHeader& header, const Role& role);

/// Template, plan header and launch facts.
codegen::KernelSource assemble_source(const BlockPlan& block, std::string_view template_name,
                                      const codegen::PlanHeader& header, const codegen::Architecture& architecture,
                                      std::string entry_point = "gemm");

}  // namespace cubit::ops::gemm
