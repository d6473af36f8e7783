// The layouts in which TMA box copies leave a stage.
#include <algorithm>
#include <bit>

#include "ops/w4a16_gemm/sm90/sm90.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm::sm90 {
namespace {

/// Boxes of `box_bytes` of each row, one box behind another. A tensor map can swizzle the 16-byte chunks of a box whose
/// rows are 32, 64 or 128 bytes.
codegen::TileLayout box_layout(int rows, int row_bytes, int box_bytes) {
  const bool is_swizzled = box_bytes == 32 || box_bytes == 64 || box_bytes == 128;
  const int bits = is_swizzled ? std::countr_zero(static_cast<unsigned>(box_bytes / 16)) : 0;
  return {rows, row_bytes, box_bytes, {bits, 4, 7}, box_bytes};
}

codegen::TileLayout plain_box_layout(int rows, int row_bytes, int box_bytes) {
  return {rows, row_bytes, box_bytes, {}, box_bytes};
}

}  // namespace

bool spreads_words(const W4a16Gemm& descriptor) { return descriptor.group_size != 32; }

bool reorders_activations(const W4a16Gemm& descriptor) { return descriptor.tile_m > 32 && !has_words_by_n(descriptor); }

int box_columns(const W4a16Gemm& descriptor) {
  return is_narrow(descriptor) ? output_columns(descriptor, descriptor.tile_n) : gemm_lanes::kBlockColumns / 2;
}

StageTiles box_tiles(const W4a16Gemm& descriptor) {
  const int columns = descriptor.tile_n;
  const int neighbours = box_columns(descriptor);
  const int groups = stage_groups(descriptor);
  StageTiles tiles;
  tiles.words = has_words_by_n(descriptor) ? box_layout(gemm_lanes::kStageK, columns / 2, neighbours / 2)
                                           : box_layout(gemm_lanes::kStageK / 8, 4 * columns, 128);
  tiles.activations = box_layout(descriptor.tile_m, gemm_lanes::kActivationBytes, 128);
  tiles.scales = plain_box_layout(groups, 2 * columns, 2 * neighbours);
  if (stores_zeros(descriptor)) tiles.zeros = {groups, columns / 2, columns / 2, {}};
  return tiles;
}

}  // namespace cubit::ops::w4a16_gemm::sm90
