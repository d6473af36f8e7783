#include "check/matrix_products.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "base/parallel.hpp"

namespace cubit::check {
namespace {

constexpr int kDepth = 256;  ///< elements of one block and of kColumns columns that stay in the L1 cache
constexpr int kColumns = 4;  ///< columns whose sums stay in registers

using Piece = std::array<double, kDepth>;  ///< of one column

/// Adds the products of `depth` elements of a block of rows and of kColumns columns. One instruction adds `Together`
/// numbers.
template <int Together>
[[gnu::always_inline]] inline void add_products(const Rows* rows, const Piece* columns, int depth, BlockSums* sums) {
  using Doubles [[gnu::vector_size(8 * Together)]] = double;
  using Words [[gnu::vector_size(8 * Together)]] = std::int64_t;
  constexpr std::int64_t kWithoutSign = std::numeric_limits<std::int64_t>::max();
  for (int row = 0; row < kBlockRows; row += Together) {
    Doubles products[kColumns];
    Doubles magnitudes[kColumns];
    for (int column = 0; column < kColumns; ++column) {
      std::memcpy(&products[column], &sums[column].products[row], sizeof(Doubles));
      std::memcpy(&magnitudes[column], &sums[column].magnitudes[row], sizeof(Doubles));
    }
    for (int i = 0; i < depth; ++i) {
      Doubles own;
      std::memcpy(&own, &rows[i][row], sizeof own);
#pragma GCC unroll 4
      for (int column = 0; column < kColumns; ++column) {
        const Doubles product = own * columns[column][i];
        products[column] += product;
        magnitudes[column] += reinterpret_cast<Doubles>(reinterpret_cast<Words>(product) & kWithoutSign);
      }
    }
    for (int column = 0; column < kColumns; ++column) {
      std::memcpy(&sums[column].products[row], &products[column], sizeof(Doubles));
      std::memcpy(&sums[column].magnitudes[row], &magnitudes[column], sizeof(Doubles));
    }
  }
}

using AddProducts = void (*)(const Rows*, const Piece*, int, BlockSums*);

void add_by_two(const Rows* rows, const Piece* columns, int depth, BlockSums* sums) {
  add_products<2>(rows, columns, depth, sums);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void add_by_four(const Rows* rows, const Piece* columns, int depth, BlockSums* sums) {
  add_products<4>(rows, columns, depth, sums);
}
AddProducts add_products_here() { return __builtin_cpu_supports("avx2") ? add_by_four : add_by_two; }
#else
AddProducts add_products_here() { return add_by_two; }
#endif

/// Multiplies all rows by `count` columns, at most kColumns.
void multiply_few(const RowBlocks& rows, int first, int count, const ColumnValues& values, ColumnSums* result) {
  const AddProducts add = add_products_here();
  std::array<Piece, kColumns> pieces{};
  for (int start = 0; start < rows.depth(); start += kDepth) {
    const int depth = std::min(kDepth, rows.depth() - start);
    for (int column = 0; column < count; ++column)
      values(first + column, start, std::span(pieces[column]).first(depth));
    for (int block = 0; block < rows.blocks(); ++block) {
      std::array<BlockSums, kColumns> sums{};
      for (int column = 0; column < count; ++column) sums[column] = result[column].blocks[block];
      add(rows.from(block, start), pieces.data(), depth, sums.data());
      for (int column = 0; column < count; ++column) result[column].blocks[block] = sums[column];
    }
  }
}

}  // namespace

RowBlocks::RowBlocks(int rows, int depth, const std::function<double(int row, int i)>& element)
    : rows_(rows), depth_(depth), values_(static_cast<std::size_t>(blocks()) * depth) {
  const auto convert = [&](std::int64_t row) {
    Rows* const block = values_.data() + row / kBlockRows * depth;
    for (int i = 0; i < depth; ++i) block[i][row % kBlockRows] = element(static_cast<int>(row), i);
  };
  parallel_for(rows, convert, kBlockRows);
}

void ColumnSums::add(double addend) {
  for (BlockSums& sums : blocks) {
    for (double& product : sums.products) product += addend;
    for (double& magnitude : sums.magnitudes) magnitude += std::fabs(addend);
  }
}

std::vector<ColumnSums> multiply(const RowBlocks& rows, int first, int count, const ColumnValues& values) {
  std::vector<ColumnSums> result(count, {std::vector<BlockSums>(rows.blocks())});
  for (int column = 0; column < count; column += kColumns) {
    multiply_few(rows, first + column, std::min(kColumns, count - column), values, result.data() + column);
  }
  return result;
}

}  // namespace cubit::check
