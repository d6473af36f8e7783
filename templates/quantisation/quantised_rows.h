// The part of a kernel's argument that operators with quantised rows share: the distribution of rows over threads, and
// the tensors that hold the result. Host and device share this header.
#pragma once

namespace cubit {

inline constexpr int kSharedBlockWarps = 4;  // warps of a block that has several rows
inline constexpr int kRowPerBlock = 5;       // row_shift of a block that has one row

/// The threads that share a row. A block has one row of up to 32 warps, or several rows of one or two warps.
struct RowShape {
  int rows;
  int columns;    // a multiple of 16
  int row_warps;  // warps of a row
  int row_shift;  // log2(row_warps) if a block has several rows, else kRowPerBlock
};

struct QuantisedRows {
  char* output;
  const char* scale;  // one float, which is read; null if the kernel writes scales
  char* scales;       // a float per row
  char* zero_points;  // an int per row; null unless the plan writes zero points
  long long stride;   // bytes from row to row, or from block to block of 32 columns
};

}  // namespace cubit
