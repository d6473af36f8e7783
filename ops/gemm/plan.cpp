// Functions on the plan that all kernel families have in common.
#include "ops/gemm/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "ops/gemm/families.hpp"

namespace cubit::ops::gemm {

int BlockPlan::block_columns() const { return output_columns(descriptor, descriptor.tile_n); }

BlockPlan begin_block(const GemmDescriptor& descriptor, const WeightOperand& weights, std::string_view family) {
  BlockPlan block;
  block.descriptor = descriptor;
  block.family = family;
  block.stage_k = weights.stage_k;
  block.tiles.words = weights.words;
  block.tiles.scales = weights.scales;
  block.tiles.zeros = weights.zeros;
  block.epilogue = weights.epilogue;
  block.row_scaling = weights.row_scaling;
  block.times = weights.times;
  block.stride_rule = weights.stride_rule;
  return block;
}

int BlockPlan::first_slice(int k_stages) const {
  const int unit = descriptor.groups ? std::max(1, descriptor.groups->size / stage_k) : 1;
  return (k_stages + 2 * unit - 1) / (2 * unit) * unit;
}

codegen::MmaShape mma_shape(const GemmDescriptor& descriptor, const codegen::Architecture& architecture) {
  const codegen::MmaShape shape{16, 8, 256 / descriptor.activation_bits, descriptor.product_type};
  codegen::MmaShape half = shape;
  half.k /= 2;
  codegen::MmaShape quarter = half;
  quarter.m /= 2;
  for (const codegen::MmaShape& one : {shape, half, quarter})
    if (architecture.has_mma(one)) return one;
  return shape;
}

std::int64_t column_tiles(const BlockPlan& block, const Problem& problem, int layers) {
  const auto tiles_of = [&](int columns) { return (columns + block.block_columns() - 1) / block.block_columns(); };
  if (block.descriptor.layers == 1 || block.descriptor.is_gated())
    return tiles_of(output_columns(block.descriptor, problem.n));
  std::int64_t tiles = 0;
  for (int layer = 0; layer < layers; ++layer) tiles += tiles_of(problem.layer_columns(layer));
  return tiles;
}

int stage_groups(const BlockPlan& block) {
  const int size = block.descriptor.groups->size;
  return size == 0 ? 1 : block.stage_k / size;
}

int activation_row_bytes(const BlockPlan& block) { return block.stage_k * block.descriptor.activation_bits / 8; }

int counters_per_tile(const GemmDescriptor& descriptor, int warps) {
  const int gated = descriptor.is_gated() ? std::max(1, warps / 2) : 0;
  if (descriptor.atomic_splits) return warps + gated;
  return gated > 0 ? gated : warps;
}

int partition_sum_bytes(const BlockPlan& block) {
  return block.k_partitions * block.descriptor.tile_n * block.descriptor.tile_m * block.descriptor.sum_bytes;
}

std::optional<BrokenRule> why_too_many_rows(int rows) {
  if (rows <= 64) return std::nullopt;
  return BrokenRule{fmt::format("its tiles have at most 64 rows, not {}", rows),
                    "ask for tile_m=8, 16, 32 or 64, which compute any number of rows, or leave family out"};
}

void require_stages(const BlockPlan& block, const codegen::Architecture& architecture) {
  if (block.stages > 0) return;
  throw Failure(Status::internal, block.descriptor.text, fmt::format("no stage count fits {}", architecture.name));
}

}  // namespace cubit::ops::gemm
