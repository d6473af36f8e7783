// Products of matrices in double precision: what instructions of any width add equals sums in the order of k.
#include "check/matrix_products.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cubit::check {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double row_value(int row, int i) { return std::sin(1.0 + 7 * row + i); }
double column_value(int column, int i) { return std::cos(3.0 * column + 5 * i); }

std::vector<ColumnSums> multiplied(const RowBlocks& rows, int first, int count) {
  return multiply(rows, first, count, [](int column, int start, std::span<double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = column_value(column, start + static_cast<int>(i));
  });
}

TEST(MatrixProductsTest, EveryCountOfRowsAndColumnsGivesSumsInTheOrderOfK) {
  for (const int m : {1, 7, 8, 9, 20}) {
    for (const int depth : {1, 255, 256, 700}) {
      const RowBlocks rows(m, depth, row_value);
      for (const int count : {1, 3, 4, 6}) {
        const std::vector<ColumnSums> columns = multiplied(rows, 2, count);
        ASSERT_EQ(columns.size(), static_cast<std::size_t>(count));
        for (int column = 0; column < count; ++column) {
          for (int row = 0; row < m; ++row) {
            double product = 0;
            double magnitude = 0;
            for (int i = 0; i < depth; ++i) {
              const double addend = row_value(row, i) * column_value(column + 2, i);
              product += addend;
              magnitude += std::fabs(addend);
            }
            EXPECT_EQ(columns[column].product(row), product) << m << ' ' << depth << ' ' << count;
            EXPECT_EQ(columns[column].magnitude(row), magnitude) << m << ' ' << depth << ' ' << count;
          }
        }
      }
    }
  }
}

TEST(MatrixProductsTest, NanAndInfinityStayInTheirRows) {
  const RowBlocks rows(9, 3, [](int row, int i) {
    if (row == 3 && i == 1) return std::nan("");
    return row == 5 ? -kInfinity : 1.0;
  });
  const std::vector<ColumnSums> columns = multiply(rows, 0, 1, [](int, int, std::span<double> values) {
    for (double& value : values) value = 2;
  });
  for (const int row : {0, 4, 8}) EXPECT_EQ(columns[0].product(row), 6) << row;
  EXPECT_TRUE(std::isnan(columns[0].product(3)));
  EXPECT_EQ(columns[0].product(5), -kInfinity);
  EXPECT_EQ(columns[0].magnitude(5), kInfinity);
}

TEST(MatrixProductsTest, AnAddendCountsInEveryRow) {
  const RowBlocks rows(10, 1, [](int row, int) { return row; });
  std::vector<ColumnSums> columns = multiply(rows, 0, 1, [](int, int, std::span<double> values) { values[0] = 1; });
  columns[0].add(-3);
  EXPECT_EQ(columns[0].product(9), 6);
  EXPECT_EQ(columns[0].magnitude(9), 12);
}

}  // namespace
}  // namespace cubit::check
