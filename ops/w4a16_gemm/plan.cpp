// Functions on the plan that all kernel families have in common.
#include "ops/w4a16_gemm/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {

int BlockPlan::block_columns() const { return output_columns(descriptor, descriptor.tile_n); }

BlockPlan begin_block(const W4a16Gemm& descriptor, std::string_view family) {
  BlockPlan block;
  block.descriptor = descriptor;
  block.pointers = pointer_checks(descriptor);
  block.family = family;
  return block;
}

int BlockPlan::first_slice(int k_stages) const {
  const int unit = has_groups(descriptor) ? std::max(1, descriptor.group_size / stage_k) : 1;
  return (k_stages + 2 * unit - 1) / (2 * unit) * unit;
}

int counters_per_tile(const W4a16Gemm& descriptor, int warps) {
  const int gated = descriptor.is_gated() ? std::max(1, warps / 2) : 0;
  if (descriptor.atomic_splits) return warps + gated;
  return gated > 0 ? gated : warps;
}

int partition_sum_bytes(const BlockPlan& block) {
  return block.k_partitions * block.descriptor.tile_n * block.descriptor.tile_m * static_cast<int>(sizeof(float));
}

void require_stages(const BlockPlan& block, const codegen::Architecture& architecture) {
  if (block.stages > 0) return;
  throw Failure(Status::internal, block.descriptor.text(), fmt::format("no stage count fits {}", architecture.name));
}

}  // namespace cubit::ops::w4a16_gemm
