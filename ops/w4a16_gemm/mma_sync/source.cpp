// Source and launch of the mma.sync kernel.
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/launch.hpp"
#include "ops/w4a16_gemm/mma_sync/kernel.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::mma_sync {
namespace {

Role format_role(const W4a16Gemm& descriptor) {
  if (descriptor.bits == 8) return {"weight_format/w8_words_by_k.cuh", "cubit::W8WordsByK"};
  if (has_words_by_n(descriptor)) return {"weight_format/w4_words_by_n.cuh", "cubit::W4WordsByN"};
  return {"weight_format/w4_words_by_k.cuh", "cubit::W4WordsByK"};
}

}  // namespace

codegen::KernelSource make_source(const Kernel& kernel, int merged_tiles, const Role& split_k,
                                  const codegen::Architecture& architecture) {
  const BlockPlan& block = kernel.block;
  const int scales_at = block.tiles.scales_at();
  codegen::PlanHeader header =
      begin_header(block, architecture, {scales_at, block.tiles.zeros_at(scales_at), stage_bytes(block)}, merged_tiles);
  header.include(kernel.copies->header)
      .constant("kCopyBytes", kernel.copy_bytes)
      .constant("kRingBytes", ring_bytes(block, block.stages))
      .flag("kActivationOrder", block.descriptor.activation_order)
      .alias("Copies", kernel.copies->role);
  add_format(header, format_role(block.descriptor));
  add_split_k(header, split_k);
  return assemble_source(block, "kernels/sm80_w4a16_gemm.cuh", header, architecture);
}

std::size_t workspace_bytes(const Kernel& kernel, const void* public_arguments, const runtime::DeviceFacts& device) {
  const ScheduledLaunch launch = schedule_launch(kernel.block, public_arguments, device);
  return largest_split_workspace_bytes(kernel.block, launch, device);
}

Launch encode_launch(const Kernel& kernel, const void* public_arguments, void* workspace, std::size_t given,
                     const runtime::DeviceFacts& device) {
  const BlockPlan& block = kernel.block;
  const ScheduledLaunch launch = schedule_launch(block, public_arguments, device);
  if (launch.is_empty()) return empty_launch();
  check_tensors(block, launch.arguments);
  require_workspace(workspace, given, split_workspace_bytes(block, launch.schedule));
  W4a16GemmArguments parameters = kernel_parameters(launch, static_cast<char*>(workspace));
  // Warps that divide a block's k's among them find their part as blocks of a split-K launch find their slice.
  parameters.splits *= block.k_partitions;
  parameters.split_stages = parameters.stages / parameters.splits;
  return make_launch(block, launch.schedule, parameters, device);
}

}  // namespace cubit::ops::w4a16_gemm::mma_sync
