// Source and launch of the mma.sync kernel.
#include "ops/gemm/launch.hpp"
#include "ops/gemm/mma_sync/kernel.hpp"

namespace cubit::ops::gemm::mma_sync {

codegen::KernelSource make_source(const Kernel& kernel, int merged_tiles, const Role& split_k,
                                  const codegen::Architecture& architecture) {
  const BlockPlan& block = kernel.block;
  const int scales_at = block.tiles.scales_at();
  codegen::PlanHeader header =
      begin_header(block, architecture, {scales_at, block.tiles.zeros_at(scales_at), stage_bytes(block)}, merged_tiles);
  header.include(kernel.copies->header)
      .include(kernel.weights.product.header)
      .constant("kCopyBytes", kernel.weights.copy_bytes)
      .constant("kRingBytes", ring_bytes(block, block.stages))
      .alias("Copies", kernel.copies->role)
      .alias("Product", kernel.weights.product.type);
  if (has_indexed_groups(block.descriptor)) header.constant("kFactorTableBytes", block.factor_table_bytes);
  add_operands(header, kernel.weights);
  add_split_k(header, split_k);
  return assemble_source(block, "kernels/gemm/sm80_gemm.cuh", header, architecture);
}

Launch encode_launch(const Kernel& kernel, const ScheduledLaunch& launch, const WeightTensors& weights, void* workspace,
                     const runtime::DeviceFacts& device) {
  const BlockPlan& block = kernel.block;
  PackedGemmArguments parameters = kernel_parameters(block, launch, weights, static_cast<char*>(workspace));
  // Warps that divide a block's k's among them find their part as blocks of a split-K launch find their slice.
  parameters.splits *= block.k_partitions;
  parameters.split_stages = parameters.stages / parameters.splits;
  const auto launch_with = [&](const auto& all) {
    return make_launch(block, launch.schedule, std::as_bytes(std::span(&all, 1)), device);
  };
  if (block.row_scaling) return launch_with(byte_parameters(parameters, weights));
  if (block.descriptor.layers > 1) return launch_with(fused_parameters(block, launch.problem, parameters, weights));
  return make_launch(block, launch.schedule, parameters, device);
}

}  // namespace cubit::ops::gemm::mma_sync
