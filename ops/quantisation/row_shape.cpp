#include "ops/quantisation/row_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"

namespace cubit::ops::quantisation {
namespace {

constexpr int kWarp = 32;
constexpr int kFullThreads = 1024;  ///< threads of a multiprocessor, of 64 registers each

int warps_of(int columns, int vectors) {
  const int step = kWarp * kVectorColumns * vectors;
  return (columns + step - 1) / step;
}

int rows_per_block(const RowShape& shape) {
  return shape.row_shift == kRowPerBlock ? 1 : kSharedBlockWarps >> shape.row_shift;
}

}  // namespace

void check_row_sizes(std::int64_t rows, std::int64_t columns, int multiple, int most_threads) {
  const int most_columns = kVectorColumns * kRowVectors * most_threads;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require_argument(rows >= 0 && rows <= kMost, "rows", "it must be from 0 to 2147483647", rows);
  if (columns >= multiple && columns <= most_columns && columns % multiple == 0) return;
  throw Failure(Status::invalid_argument, fmt::format("columns = {}", columns),
                fmt::format("it must be a multiple of {} from {} to {}", multiple, multiple, most_columns));
}

RowShape row_shape(int rows, int columns, const runtime::DeviceFacts& device, int most_threads, int usual_vectors) {
  const int most_warps = most_threads / kWarp;
  const int widest = warps_of(columns, 1);
  const std::int64_t at_once = std::int64_t{device.multiprocessors} * (kFullThreads / kWarp);
  const bool are_few = widest <= most_warps && std::int64_t{rows} * widest <= at_once;
  const int usual = warps_of(columns, usual_vectors);
  RowShape shape{};
  shape.rows = rows;
  shape.columns = columns;
  shape.row_warps = are_few ? widest : usual <= most_warps ? usual : warps_of(columns, kRowVectors);
  shape.row_shift = shape.row_warps <= 2 ? shape.row_warps - 1 : kRowPerBlock;
  return shape;
}

runtime::LaunchShape launch_shape(const RowShape& shape) {
  const auto rows = static_cast<unsigned>(rows_per_block(shape));
  const int warps = rows == 1 ? shape.row_warps : kSharedBlockWarps;
  return {{(static_cast<unsigned>(shape.rows) + rows - 1) / rows, 1, 1}, static_cast<unsigned>(kWarp * warps), 0};
}

std::vector<Decision> row_decisions(int most_threads) {
  return {
      {"columns per vector", std::to_string(kVectorColumns), "32 bytes of input and 16 bytes of quantised output"},
      {"vectors per thread", "1, 2 or 4, chosen at each launch",
       "a row stays in registers; few rows take one vector per thread, so that more threads share a row"},
      {"warps per row", fmt::format("1 to {}, chosen at each launch", most_threads / kWarp),
       "as many as the row's vectors need; rows of one or two warps share a block of four"},
      {"registers", std::to_string(65536 / most_threads), fmt::format("blocks have up to {} threads", most_threads)}};
}

}  // namespace cubit::ops::quantisation
