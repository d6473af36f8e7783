// From a descriptor and an architecture to a plan. Pure.
#include <algorithm>
#include <bit>

#include "ops/w4a16_gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm90_persistent {
namespace {

constexpr int kFewestStages = 3;
constexpr int kMostStages = 12;  // more than the memory's latency needs
constexpr int kStageBarrierBytes = 2 * 8;
constexpr int kExchangeBarrierBytes = 3 * 8;

/// Boxes of `box_bytes` of each row, one box behind another, whose 16-byte chunks a tensor map swizzles.
codegen::TileLayout swizzled_boxes(int rows, int row_bytes, int box_bytes) {
  const int bits = std::countr_zero(static_cast<unsigned>(box_bytes / 16));
  return {rows, row_bytes, box_bytes, {bits, 4, 7}, box_bytes};
}

codegen::TileLayout weight_layout(const W4a16Gemm& descriptor) {
  if (descriptor.is_dense()) {
    constexpr int kDenseBytes = 2 * persistent_lanes::kSlabK;
    return swizzled_boxes(persistent_lanes::kBlockFeatures, kDenseBytes, kDenseBytes);
  }
  const int boxes = descriptor.is_gated() ? 2 : 1;
  if (has_words_by_n(descriptor)) {
    constexpr int kRowBytes = persistent_lanes::kBlockFeatures / 2;
    return swizzled_boxes(persistent_lanes::kSlabK, kRowBytes, kRowBytes / boxes);
  }
  constexpr int kRowBytes = 4 * persistent_lanes::kBlockFeatures;
  return {persistent_lanes::kSlabK / 8, kRowBytes, kRowBytes / boxes, {}, kRowBytes / boxes};
}

/// Half of a tile's rows is stored where a cluster splits k, and a staging tile has that half, or half of it if shared
/// memory has better uses.
int store_rows(const W4a16Gemm& descriptor) {
  return descriptor.tile_m < 192 ? descriptor.tile_m / 2 : descriptor.tile_m / 4;
}

/// Small groups change the unit of the sums more often: see templates/weight_format/w4_group_scales.cuh.
double cost_of_groups(int group_size) {
  if (group_size == 32) return 1.8;
  return group_size == 64 ? 1.11 : 1;
}

/// Estimates for an H200, where nobody has timed dense weights yet. With many rows the tensor cores bind, and with few
/// rows the bytes of weights: 128 features of a slab per block, while the memory delivers 4.2 megabytes per microsecond
/// to all blocks at work.
PersistentTimes times_of_dense_weights(double rows) {
  return {.slab = std::max(0.27, 0.00234 * rows),
          .full_slab = std::max(0.52, 0.00266 * rows),
          .epilogue = 0.4 + 0.0065 * rows,
          .exchange = 1.5 + 0.005 * rows,
          .handover = 5.2,
          .partial = 0.004 * rows};
}

/// Times of an H200. With many rows the tensor cores bind, and with all of them at work the power limit; with few rows
/// the time between a warpgroup's products does.
PersistentTimes times_of(const W4a16Gemm& descriptor) {
  const double rows = descriptor.tile_m;
  if (descriptor.is_dense()) return times_of_dense_weights(rows);
  const double groups = cost_of_groups(descriptor.group_size);
  const double slab = std::max(0.45, 0.325 + 0.00117 * rows);
  return {.slab = groups * slab,
          .full_slab = groups * std::max(slab, 0.00277 * rows),
          .epilogue = 0.4 + 0.0065 * rows,
          .exchange = 1.5 + 0.005 * rows,
          .handover = 5.2,
          .partial = 0.004 * rows};
}

BlockPlan make_block(const W4a16Gemm& descriptor) {
  BlockPlan block = begin_block(descriptor, "sm90_persistent");
  block.warps = persistent_lanes::kConsumerWarps;
  block.threads = 128 * (kWarpgroups + 1);
  block.blocks_per_sm = 1;
  block.stage_k = persistent_lanes::kSlabK;
  block.splits_k = true;
  block.has_clusters = true;
  block.is_persistent = true;
  block.needs_row_stride = true;
  block.tiles.words = weight_layout(descriptor);
  block.tiles.activations =
      swizzled_boxes(descriptor.tile_m, persistent_lanes::kActivationBytes, persistent_lanes::kActivationBytes);
  block.times = times_of(descriptor);
  return block;
}

}  // namespace

bool loads_words_ahead(const W4a16Gemm& descriptor) { return descriptor.tile_m < 256 && !descriptor.is_dense(); }

int Plan::shared_memory(int stages) const {
  return barriers_at(stages) + stages * kStageBarrierBytes + kExchangeBarrierBytes;
}

Plan make_plan(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  Plan plan;
  plan.block = make_block(descriptor);
  plan.store_rows = store_rows(descriptor);
  const int output_bytes = 2 * persistent_lanes::warpgroup_outputs(descriptor.is_gated());
  plan.staging = swizzled_boxes(plan.store_rows, output_bytes, output_bytes);
  constexpr int kThreadBytes = 16 * 128;
  plan.exchange = {descriptor.tile_m / 16, kThreadBytes, kThreadBytes, {}};
  for (int stages = kFewestStages; stages <= kMostStages; ++stages) {
    if (plan.shared_memory(stages) > architecture.shared_memory_per_block) break;
    plan.block.stages = stages;
    plan.block.shared_memory = plan.shared_memory(stages);
  }
  require_stages(plan.block, architecture);
  return plan;
}

}  // namespace cubit::ops::w4a16_gemm::sm90_persistent
