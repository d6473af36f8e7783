// Tiles, layouts and registers of the mma.sync kernel.
#include "ops/gemm/mma_sync/kernel.hpp"

#include <utility>

namespace cubit::ops::gemm::mma_sync {
namespace {

void choose_layouts(Kernel& kernel) {
  BlockPlan& block = kernel.block;
  StageTiles& tiles = block.tiles;
  tiles.words = codegen::search_layout(tiles.words.rows, tiles.words.row_bytes, 16, word_accesses(kernel));
  tiles.activations =
      codegen::search_layout(block.descriptor.tile_m, activation_row_bytes(block), 16, activation_accesses(kernel));
}

/// Registers that the loop keeps live, by counting the loop's arrays. Each 8 rows have activations, and each strip of
/// them has sums.
int count_registers(const Kernel& kernel) {
  constexpr int kAddressesAndTemporaries = 26;
  constexpr int kActivations = 4;
  const Weights& weights = kernel.weights;
  const int row_tiles = kernel.block.descriptor.tile_m / 8;
  const int per_tile = kernel.strips_per_warp * weights.strip_tile_registers + kActivations;
  const int strips = kernel.strips_per_warp * weights.strip_registers;
  return (kAddressesAndTemporaries + weights.more_registers + strips + row_tiles * per_tile + 7) / 8 * 8;
}

}  // namespace

Kernel begin_kernel(const GemmDescriptor& descriptor, Weights weights, std::string_view family,
                    const StageCopies& copies) {
  Kernel kernel;
  kernel.block = begin_block(descriptor, weights, family);
  kernel.weights = std::move(weights);
  kernel.copies = &copies;
  return kernel;
}

void choose_tiles(Kernel& kernel, bool allows_two_strips) {
  BlockPlan& block = kernel.block;
  kernel.strips_per_warp = allows_two_strips && block.strips() > 1 ? 2 : 1;
  kernel.counted_registers = count_registers(kernel);
  block.warps = block.strips() / kernel.strips_per_warp;
  block.threads = 32 * block.warps;
  block.counters_per_tile = counters_per_tile(block.descriptor, block.warps);
  choose_layouts(kernel);
}

int stage_bytes(const BlockPlan& block) {
  const StageTiles& tiles = block.tiles;
  const int scales_at = tiles.scales_at();
  if (has_indexed_groups(block.descriptor)) return scales_at + kIndexBytes;
  if (!stages_scales(block.descriptor)) return scales_at;
  const int zeros_at = tiles.zeros_at(scales_at);
  return stores_zeros(block.descriptor) ? align_region(zeros_at + tiles.zeros.size()) : zeros_at;
}

int ring_bytes(const BlockPlan& block, int stages) {
  const StageTiles& tiles = block.tiles;
  int scales_and_zeros = 0;
  if (has_one_group(block.descriptor))
    scales_and_zeros = tiles.zeros_at(0) + (stores_zeros(block.descriptor) ? tiles.zeros.size() : 0);
  return align_region(stages * stage_bytes(block) + scales_and_zeros);
}

int shared_memory(const BlockPlan& block, int stages) {
  return block.k_partitions * ring_bytes(block, stages) + block.factor_table_bytes;
}

}  // namespace cubit::ops::gemm::mma_sync
