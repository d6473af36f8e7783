// Turns a convert_layout descriptor into a kernel's source and report.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "codegen/plan_header.hpp"
#include "ops/convert_layout/convert_layout.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops::convert_layout {
namespace {

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

codegen::KernelSource make_source(const ConvertLayout& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("quantisation/layout_patches.cuh").constant("kThreads", kThreads);
  header.alias("From", device_layout(descriptor.from)).alias("To", device_layout(descriptor.to));
  return codegen::assemble(descriptor.text(), templates::find("kernels/quantisation/convert_layout.cuh"), header.text(),
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

}  // namespace cubit::ops::convert_layout
