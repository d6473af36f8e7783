// Where rows of bytes or integers lie in memory. offset(stride, row, column) is the offset in elements of a vector that
// begins at `column`; a vector does not cross a block. `stride` counts elements, too.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Row after row; `stride` is the distance between rows.
struct RowMajor {
  static __device__ __forceinline__ int64 offset(long long stride, int64 row, int column) {
    return row * stride + column;
  }
};

/// COL32: blocks of 32 columns; a block has 32 elements of each row. `stride` is the distance between blocks.
struct Col32 {
  static __device__ __forceinline__ int64 offset(long long stride, int64 row, int column) {
    return (column / 32) * stride + 32 * row + column % 32;
  }
};

}  // namespace cubit
