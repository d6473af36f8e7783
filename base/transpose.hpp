// Transposes a matrix of any element type, for weights that a checkpoint stores as [in, out].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace cubit {

/// The transpose of a dense matrix with rows of `columns` elements. An element has 1 to 8 bytes.
inline std::vector<std::byte> transposed_bytes(std::span<const std::byte> matrix, std::size_t columns,
                                               std::size_t element) {
  constexpr std::size_t kBlock = 64;  // a block of both matrices fits in the L1 cache
  const std::size_t rows = columns == 0 ? 0 : matrix.size() / columns / element;
  std::vector<std::byte> result(matrix.size());
  for (std::size_t top = 0; top < rows; top += kBlock)
    for (std::size_t left = 0; left < columns; left += kBlock)
      for (std::size_t row = top; row < std::min(rows, top + kBlock); ++row)
        for (std::size_t column = left; column < std::min(columns, left + kBlock); ++column)
          std::memcpy(&result[(column * rows + row) * element], &matrix[(row * columns + column) * element], element);
  return result;
}

}  // namespace cubit
