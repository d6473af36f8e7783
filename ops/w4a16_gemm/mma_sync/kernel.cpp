// Tiles, layouts and performance constants of the mma.sync kernel.
#include "ops/w4a16_gemm/mma_sync/kernel.hpp"

#include <algorithm>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm::mma_sync {
namespace {

WideTimes wide_times(int tile_m) {
  WideTimes times;
  times.second_tile = 72.0 / tile_m;  // the shorter a stage, the longer an empty ring takes to fill
  times.awq = 1.03;
  times.stage = tile_m == 8 ? 0.45 : tile_m == 16 ? 0.57 : tile_m == 32 ? 0.88 : 1.6;
  times.merge_slice = tile_m == 8 ? 0.17 : tile_m == 16 ? 0.35 : tile_m == 32 ? 0.44 : 0.15;
  return times;
}

/// Consumer warps copy their own stages: 16 rows of activations are as many bytes as the words of 64 columns.
NarrowTimes narrow_times(const W4a16Gemm& descriptor) {
  const double columns = descriptor.tile_n * descriptor.bits / 4.0;  // columns of 4 bits with as many bytes
  const double of_column = descriptor.bits == 8 ? 0.0018 : 0.002;    // three H200s, M=1 at 8192²
  const double awq = descriptor.tile_n == 32 ? 2 : 1.4;              // rows of words of 16 bytes, and of 32
  const double stage = descriptor.tile_m > 8 ? 0.043 + 0.0018 * columns : of_column * columns;
  return {.stage = descriptor.format == W4Format::awq ? awq * stage : stage};
}

void choose_layouts(Kernel& kernel) {
  const W4a16Gemm& descriptor = kernel.block.descriptor;
  StageTiles& tiles = kernel.block.tiles;
  const int groups = stage_groups(descriptor);
  const int weights_in_row = has_words_by_n(descriptor) ? 1 : word_weights(descriptor);
  tiles.words.rows = gemm_lanes::kStageK / weights_in_row;
  tiles.words.row_bytes = gemm_lanes::kStageK * descriptor.tile_n * descriptor.bits / 8 / tiles.words.rows;
  tiles.words = codegen::search_layout(tiles.words.rows, tiles.words.row_bytes, 16, word_accesses(kernel));
  tiles.activations =
      codegen::search_layout(descriptor.tile_m, gemm_lanes::kActivationBytes, 16, activation_accesses(kernel));
  if (descriptor.activation_order) return;
  tiles.scales = {groups, 2 * descriptor.tile_n, 2 * descriptor.tile_n, {}};
  const int zero_bytes = descriptor.tile_n * descriptor.bits / 8;
  if (stores_zeros(descriptor)) tiles.zeros = {groups, zero_bytes, zero_bytes, {}};
}

}  // namespace

/// A strip has words, an operand, zeros and scales, and each of its tiles of 8 rows has sums and products. Each 8 rows
/// have activations. With activation order there are no products, but two terms of all operands of a step.
int count_registers(const W4a16Gemm& descriptor, int strips_per_warp) {
  constexpr int kAddressesAndTemporaries = 26;
  constexpr int kWordsOperandAndScales = 4 + 4 + 12;
  constexpr int kOrderedOperands = 48;
  const int row_tiles = descriptor.tile_m / 8;
  const int operands = descriptor.activation_order ? kOrderedOperands : 0;
  const int per_tile = strips_per_warp * (descriptor.activation_order ? 8 : 8 + 8) + 4;
  const int strips = strips_per_warp * kWordsOperandAndScales;
  return (kAddressesAndTemporaries + operands + strips + row_tiles * per_tile + 7) / 8 * 8;
}

void choose_tiles(Kernel& kernel, bool allows_two_strips) {
  BlockPlan& block = kernel.block;
  const W4a16Gemm& descriptor = block.descriptor;
  kernel.strips_per_warp = allows_two_strips && block.strips() > 1 ? 2 : 1;
  kernel.copy_bytes = descriptor.alignment;
  kernel.counted_registers = count_registers(descriptor, kernel.strips_per_warp);
  block.warps = block.strips() / kernel.strips_per_warp;
  block.threads = 32 * block.warps;
  block.counters_per_tile = counters_per_tile(descriptor, block.warps);
  if (is_narrow(descriptor)) {
    block.times = narrow_times(descriptor);
  } else {
    block.times = wide_times(descriptor.tile_m);
  }
  choose_layouts(kernel);
}

int stage_bytes(const BlockPlan& block) {
  const StageTiles& tiles = block.tiles;
  const int scales_at = tiles.scales_at();
  if (!stages_scales(block.descriptor)) return scales_at;
  const int zeros_at = tiles.zeros_at(scales_at);
  return stores_zeros(block.descriptor) ? align_region(zeros_at + tiles.zeros.size()) : zeros_at;
}

int ring_bytes(const BlockPlan& block, int stages) {
  const StageTiles& tiles = block.tiles;
  int scales_and_zeros = 0;
  if (block.descriptor.group_size == 0)
    scales_and_zeros = tiles.zeros_at(0) + (stores_zeros(block.descriptor) ? tiles.zeros.size() : 0);
  return align_region(stages * stage_bytes(block) + scales_and_zeros);
}

int shared_memory(const BlockPlan& block, int stages) { return block.k_partitions * ring_bytes(block, stages); }

}  // namespace cubit::ops::w4a16_gemm::mma_sync
