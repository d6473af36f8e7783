// Turns public arguments of convert_layout into a launch.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/convert_layout/convert_layout.hpp"
#include "templates/kernels/quantisation/convert_layout_arguments.h"

namespace cubit::ops::convert_layout {
namespace {

constexpr int kPatchesPerTile = 4;  ///< patches of a tile of 8 rows and 32 columns
constexpr int kTileRows = 8;

void check_matrix(const char* name, MatrixLayout layout, const void* data, std::int64_t stride) {
  require_alignment(name, data, &stride, 1, 1, 16,
                    layout == MatrixLayout::row ? "align it, and pad its rows" : "align it, and pad its blocks");
}

}  // namespace

void check_sizes(const ConvertLayout& descriptor, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require_argument(rows >= 0 && rows <= kMost, "rows", "it must be from 0 to 2147483647", rows);
  const auto whole = [](const char* name, std::int64_t given, int multiple, MatrixLayout layout) {
    if (given % multiple == 0) return;
    throw Failure(
        Status::invalid_argument, fmt::format("{} = {}", name, given),
        fmt::format("{} has no partial tiles, so that it must be a multiple of {}", text_of(layout), multiple),
        "pad the matrix");
  };
  require_argument(columns > 0 && columns <= kMost, "columns", "it must be from 32 to 2147483616", columns);
  for (const MatrixLayout layout : {descriptor.from, descriptor.to}) {
    whole("rows", rows, row_multiple(layout), layout);
    if (layout != MatrixLayout::row) whole("columns", columns, kLayoutBlockColumns, layout);
  }
  const std::int64_t tiles = (rows + kTileRows - 1) / kTileRows * (columns / kLayoutBlockColumns);
  require_argument(tiles <= kMost, "rows * columns", "it must be at most 549755813632", rows * columns);
}

Launch encode(const ConvertLayout& descriptor, const PointerChecks& pointers, const void* public_arguments) {
  const auto& arguments =
      checked_arguments<cubit_convert_layout_arguments>(public_arguments, "cubit_convert_layout_arguments");
  check_sizes(descriptor, arguments.rows, arguments.columns);
  Launch launch;
  launch.empty = arguments.rows == 0;
  if (launch.empty) return launch;
  pointers.check(&arguments);
  check_matrix("input", descriptor.from, arguments.input, arguments.input_stride);
  check_matrix("output", descriptor.to, arguments.output, arguments.output_stride);
  const int blocks = arguments.columns / kLayoutBlockColumns;
  const bool is_row = descriptor.to == MatrixLayout::row;
  WrittenDimension dimension[] = {{"output_stride", -1, is_row ? arguments.rows : blocks, arguments.output_stride}};
  require_apart(dimension, is_row ? arguments.columns : std::int64_t{kLayoutBlockColumns} * arguments.rows);
  const ConvertLayoutArguments parameters{static_cast<const char*>(arguments.input),
                                          static_cast<char*>(arguments.output),
                                          arguments.input_stride,
                                          arguments.output_stride,
                                          arguments.rows,
                                          blocks};
  const std::int64_t patches = (std::int64_t{arguments.rows} + kTileRows - 1) / kTileRows * blocks * kPatchesPerTile;
  launch.shape = {{static_cast<unsigned>((patches + kThreads - 1) / kThreads), 1, 1}, kThreads, 0};
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

}  // namespace cubit::ops::convert_layout
