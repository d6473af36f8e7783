// From a descriptor and an architecture to a plan. Pure.
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

codegen::TileLayout word_layout(const W4a16Gemm& descriptor) {
  const int boxes = descriptor.is_gated() ? 2 : 1;
  if (has_words_by_n(descriptor)) {
    constexpr int kRowBytes = persistent_lanes::kBlockFeatures / 2;
    return swizzled_boxes(persistent_lanes::kSlabK, kRowBytes, kRowBytes / boxes);
  }
  constexpr int kRowBytes = 4 * persistent_lanes::kBlockFeatures;
  return {persistent_lanes::kSlabK / 8, kRowBytes, kRowBytes / boxes, {}, kRowBytes / boxes};
}

/// Half of a tile's rows is stored where a cluster splits k, and a staging tile has a part of that half.
int store_rows(const W4a16Gemm& descriptor) { return descriptor.tile_m % 128 == 0 ? 64 : 32; }

/// Times of an H200. Tiles of 64 rows were not timed.
PersistentTimes times_of(const W4a16Gemm& descriptor) {
  switch (descriptor.tile_m) {
    case 256:
      return {.slab = 0.63, .full_slab = 0.71, .epilogue = 2.0, .exchange = 2.7};
    case 192:
      return {.slab = 0.54, .full_slab = 0.59, .epilogue = 2.8, .exchange = 2.6};
    case 128:
      return {.slab = 0.50, .full_slab = 0.505, .epilogue = 1.2, .exchange = 2.1};
    default:
      return {.slab = 0.42, .full_slab = 0.42, .epilogue = 0.8, .exchange = 1.8};
  }
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
  block.tiles.words = word_layout(descriptor);
  block.tiles.activations =
      swizzled_boxes(descriptor.tile_m, persistent_lanes::kActivationBytes, persistent_lanes::kActivationBytes);
  block.times = times_of(descriptor);
  return block;
}

}  // namespace

bool loads_words_ahead(const W4a16Gemm& descriptor) { return descriptor.tile_m < 256; }

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
