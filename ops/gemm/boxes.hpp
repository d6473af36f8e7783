// TMA box copies: the layouts in which they leave the tensors of a stage, and the tensor maps of a launch.
#pragma once

#include <cstdint>

#include "codegen/tile_layout.hpp"
#include "ops/gemm/launch.hpp"

namespace cubit::ops::gemm {

/// Boxes of `box_bytes` of each row, one box behind another. A tensor map swizzles the 16-byte chunks of a box whose
/// rows are 32, 64 or 128 bytes.
codegen::TileLayout box_layout(int rows, int row_bytes, int box_bytes);
/// The same without swizzle.
codegen::TileLayout plain_box_layout(int rows, int row_bytes, int box_bytes);

/// Of a block's columns, these many neighbours can be copied in one box: at most half of 256, and gate columns apart
/// from up-projection columns.
int box_columns(const GemmDescriptor& descriptor);

/// A matrix of `columns` x `rows` elements with `row_bytes` from row to row, copied in boxes of this layout.
runtime::TensorMap box_map(const void* base, int element_bytes, std::int64_t columns, std::int64_t rows,
                           std::int64_t row_bytes, const codegen::TileLayout& layout);
/// Bytes from row to row, for a tensor map. A matrix of one row has no stride, but a tensor map needs one.
std::int64_t map_row_bytes(std::int64_t rows, std::int64_t columns, std::int64_t stride, int element_bytes);
/// Weights [n][k] in rows of `row_bytes`, copied in boxes of this layout. If gated, the map has the dimensions
/// [n / 16][2][8][k]: 8 gate rows and their 8 up-projection rows follow one another in a box.
runtime::TensorMap weight_rows_map(const GemmDescriptor& descriptor, const void* base, std::int64_t n, std::int64_t k,
                                   std::int64_t row_bytes, const codegen::TileLayout& layout);
runtime::TensorMap activation_map(const GemmDescriptor& descriptor, const Problem& problem,
                                  const codegen::TileLayout& layout);

/// Adds a map behind the launch's parameters and maps so far.
void add_map(Launch& launch, const runtime::TensorMap& map);

}  // namespace cubit::ops::gemm
