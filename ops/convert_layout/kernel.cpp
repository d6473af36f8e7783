// Turns a convert_layout descriptor into a kernel's source and report, and public arguments into a launch.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "codegen/plan_header.hpp"
#include "ops/argument_checks.hpp"
#include "ops/convert_layout/convert_layout.hpp"
#include "templates/embedded.hpp"
#include "templates/kernels/convert_layout_arguments.h"

namespace cubit::ops::convert_layout {
namespace {

constexpr int kThreads = 256;
constexpr int kPatchesPerTile = 4;  ///< patches of a tile of 8 rows and 32 columns
constexpr int kTileRows = 8;

Field<ConvertLayout> layout_field(const char* name, const char* standard, const char* meaning,
                                  MatrixLayout ConvertLayout::*member) {
  return word_field<ConvertLayout, MatrixLayout>({name, "row, col32, col4_4r2_8c, col32_2r_4r4", standard, meaning},
                                                 member,
                                                 {{"row", MatrixLayout::row},
                                                  {"col32", MatrixLayout::col32},
                                                  {"col4_4r2_8c", MatrixLayout::col4_4r2_8c},
                                                  {"col32_2r_4r4", MatrixLayout::col32_2r_4r4}});
}

std::string_view device_layout(MatrixLayout layout) {
  constexpr std::string_view kTypes[] = {"cubit::RowPatches", "cubit::Col32Patches", "cubit::Col4Patches",
                                         "cubit::Col32RowsPatches"};
  return kTypes[static_cast<int>(layout)];
}

void check_matrix(const char* name, MatrixLayout layout, const void* data, std::int64_t stride) {
  require_alignment(name, data, &stride, 1, 1, 16,
                    layout == MatrixLayout::row ? "align it, and pad its rows" : "align it, and pad its blocks");
}

}  // namespace

const std::vector<Field<ConvertLayout>>& fields() {
  static const auto& table = never_destroyed(std::vector{
      layout_field("from", "row", "layout of the input", &ConvertLayout::from),
      layout_field("to", "col32", "layout of the output; it differs from the input's", &ConvertLayout::to)});
  return table;
}

ConvertLayout parse(std::string_view text) {
  const ConvertLayout descriptor = parse_fields(text, fields());
  if (descriptor.from == descriptor.to) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                  fmt::format("from and to are both {}, so that there is nothing to convert", text_of(descriptor.to)),
                  "give two layouts");
  }
  return descriptor;
}

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

codegen::KernelSource make_source(const ConvertLayout& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("quantisation/layout_patches.cuh").constant("kThreads", kThreads);
  header.alias("From", device_layout(descriptor.from)).alias("To", device_layout(descriptor.to));
  return codegen::assemble(descriptor.text(), templates::find("kernels/convert_layout.cuh"), header.text(),
                           architecture, "convert_layout", {kThreads, 0}, templates::embedded());
}

PlanReport make_report(const ConvertLayout& descriptor) {
  PlanReport report;
  report.family = "convert_layout";
  const bool transposes =
      (descriptor.from == MatrixLayout::col4_4r2_8c) != (descriptor.to == MatrixLayout::col4_4r2_8c);
  report.decisions = {
      {"patch of a thread", "4 rows of 16 columns",
       "the rows 8 R + p + 2 i of one parity p: in every layout the patch is four vectors of 16 bytes"},
      {"in registers", transposes ? "a transposition of 4 x 4 words" : "nothing",
       transposes ? "col4_4r2_8c keeps 4 columns of four rows together, the other layout 16 columns of a row"
                  : "both layouts keep 16 columns of a row together"},
      {"lanes", "8 rows of 256 columns",
       "two lanes have 32 columns of a row, so that they fill a sector of 32 bytes; two parities, eight blocks"}};
  return report;
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
