// Products of matrices in double precision, for the references of GEMM operators. Each element of a product comes with
// the sum of the absolute values of its addends, which says how much rounding may change the element.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cubit::check {

/// Numbers of neighbouring rows are adjacent in memory, so that one SIMD instruction adds several rows. The products of
/// one row are added in the order of k.
inline constexpr int kBlockRows = 8;
using Rows = std::array<double, kBlockRows>;

/// A matrix [rows, depth] in blocks of rows: [blocks][depth][kBlockRows]. The last block ends with rows of zeros.
class RowBlocks {
 public:
  /// element(row, i) is called once per element, on several threads.
  RowBlocks(int rows, int depth, const std::function<double(int row, int i)>& element);
  int blocks() const { return (rows_ + kBlockRows - 1) / kBlockRows; }
  int depth() const { return depth_; }
  const Rows* from(int block, int i) const { return values_.data() + static_cast<std::int64_t>(block) * depth_ + i; }

 private:
  int rows_;
  int depth_;
  std::vector<Rows> values_;
};

/// The sums of a block of rows with one column.
struct BlockSums {
  Rows products{};
  Rows magnitudes{};  ///< sums of the absolute values of the addends
};

/// The sums of all rows with one column.
struct ColumnSums {
  std::vector<BlockSums> blocks;
  double product(int row) const { return blocks[row / kBlockRows].products[row % kBlockRows]; }
  double magnitude(int row) const { return blocks[row / kBlockRows].magnitudes[row % kBlockRows]; }
  /// Adds the same number to the sums of every row.
  void add(double addend);
};

/// Writes elements `first`, `first` + 1, … of a column.
using ColumnValues = std::function<void(int column, int first, std::span<double> values)>;

/// Multiplies all rows by the columns `first` … `first` + `count` - 1, on this thread.
std::vector<ColumnSums> multiply(const RowBlocks& rows, int first, int count, const ColumnValues& values);

}  // namespace cubit::check
