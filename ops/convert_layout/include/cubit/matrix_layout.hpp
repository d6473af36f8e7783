// Layouts of matrices of bytes that int8 libraries persist, and the place of an element in each layout.
#pragma once

#include <cstdint>

namespace cubit {

enum class MatrixLayout {
  row,           ///< row-major
  col32,         ///< COL32: blocks of 32 columns, row-major inside
  col4_4r2_8c,   ///< COL4_4R2_8C: for operand B on Turing; rows are a multiple of 8
  col32_2r_4r4,  ///< COL32_2R_4R4: for operand B on Ampere; rows are a multiple of 32
};

inline constexpr int kLayoutBlockColumns = 32;  ///< columns of a block of every interleaved layout

constexpr const char* text_of(MatrixLayout layout) {
  constexpr const char* kNames[] = {"row", "col32", "col4_4r2_8c", "col32_2r_4r4"};
  return kNames[static_cast<int>(layout)];
}

/// The rows of a matrix in this layout are a multiple of this number.
constexpr int row_multiple(MatrixLayout layout) {
  return layout == MatrixLayout::col4_4r2_8c ? 8 : layout == MatrixLayout::col32_2r_4r4 ? 32 : 1;
}

/// The offset of element (row, column) in elements. `stride` is the distance from row to row of a row-major matrix, and
/// from block of 32 columns to block of 32 columns of an interleaved layout.
constexpr std::int64_t offset_of(MatrixLayout layout, std::int64_t stride, std::int64_t row, std::int64_t column) {
  if (layout == MatrixLayout::row) return row * stride + column;
  const std::int64_t block = column / kLayoutBlockColumns * stride;
  const std::int64_t inside = column % kLayoutBlockColumns;
  if (layout == MatrixLayout::col32) return block + 32 * row + inside;
  if (layout == MatrixLayout::col32_2r_4r4)
    return block + row / 32 * 1024 + ((row % 8 / 2 * 4 + row % 32 / 8) * 2 + row % 2) * 32 + inside;
  return block + (row / 8 * 8 + row % 2 * 4 + inside / 8) * 32 + ((inside % 8 >= 4 ? 4 : 0) + row % 8 / 2) * 4 +
         inside % 4;
}

}  // namespace cubit
