#include "ops/quantisation/quantised_rows.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/quantisation/row_shape.hpp"

namespace cubit::ops::quantisation {
namespace {

constexpr int kBlockColumns = 32;  ///< columns of a COL32 block

ArgumentMember nested(std::string_view name, std::size_t offset, const ArgumentMember& member) {
  return {name, offset + member.offset, member.bytes};
}

std::string scaling_type(const RowQuantisation& quantisation) {
  if (quantisation.output == Quantised::none) return "cubit::Unquantised";
  if (quantisation.has_zero_points()) return "cubit::RowScaleAndZero";
  const std::string_view code =
      quantisation.output == Quantised::int8 ? "cubit::Int8Code" : "cubit::Fp8Code<4, kConvertsFp8>";
  return fmt::format("cubit::{}<{}>", quantisation.scale == ScaleScope::token ? "RowScale" : "GivenScale", code);
}

}  // namespace

void check_fields(const RowQuantisation& quantisation, std::string_view text) {
  const auto reject = [&](const std::string& rule, const char* remedy) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text), rule, remedy);
  };
  for (const char* const field : {"scale", "scheme", "layout"}) {
    if (quantisation.output == Quantised::none && gives_field(text, field))
      reject(fmt::format("the field {} does not apply to output=unquantised, which stores 16-bit rows", field),
             "leave it out or ask for output=int8 or output=fp8_e4m3");
  }
  if (!quantisation.has_zero_points()) return;
  if (quantisation.output != Quantised::int8)
    reject("scheme=asymmetric needs the integers of output=int8", "leave scheme out or ask for output=int8");
  if (quantisation.scale != ScaleScope::token)
    reject("scheme=asymmetric needs scale=token, whose scales and zero points come from the rows",
           "leave scheme out or ask for scale=token");
}

void add_result(std::vector<Argument>& arguments, std::size_t offset, bool is_always_quantised) {
  using Struct = cubit_quantised_rows;
  const char* const types = is_always_quantised ? "I8, F8_E4M3" : "I8, F8_E4M3, F16, BF16";
  arguments.push_back(
      output("output", types, {{"layout=row", "[rows, columns]"}, {"layout=col32", "[columns / 32, rows, 32]"}},
             nested("result.output", offset, CUBIT_MEMBER(output)), "the result; the type follows output")
          .typed_by("output|input")
          .strided("first", nested("result.output_stride", offset, CUBIT_MEMBER(output_stride))));
  arguments.push_back(input("scale", "F32", shape("[1]"), nested("result.scale", offset, CUBIT_MEMBER(scale)),
                            "the scale of all rows, from 2^-100 to 2^100")
                          .with("output=!unquantised,scale=tensor"));
  arguments.push_back(output("scales", "F32", shape("[rows]"), nested("result.scales", offset, CUBIT_MEMBER(scales)),
                             "scale of each row; NaN if the row has a value that is not finite")
                          .with("output=!unquantised,scale=token"));
  arguments.push_back(output("zero_points", "I32", shape("[rows]"),
                             nested("result.zero_points", offset, CUBIT_MEMBER(zero_points)),
                             "code that stands for 0 in each row, from -128 to 127")
                          .with("scheme=asymmetric"));
}

void add_roles(codegen::PlanHeader& header, const RowQuantisation& quantisation,
               const codegen::Architecture& architecture, int most_threads) {
  header.include("quantisation/row_layouts.cuh").include("quantisation/scaling.cuh");
  header.constant("kMostThreads", most_threads).flag("kConvertsFp8", architecture.fp8_conversion);
  header.alias("Scaling", scaling_type(quantisation));
  header.alias("Layout", quantisation.layout == RowLayout::row ? "cubit::RowMajor" : "cubit::Col32");
}

std::vector<Decision> result_decisions(const RowQuantisation& quantisation, const codegen::Architecture& architecture) {
  if (quantisation.output == Quantised::none) return {{"scale", "none", "the descriptor has output=unquantised"}};
  const bool is_given = quantisation.scale == ScaleScope::tensor;
  std::vector<Decision> decisions = {
      {"scale",
       is_given                         ? "given"
       : quantisation.has_zero_points() ? "per row, with a zero point"
                                        : "per row",
       is_given ? "no reduction and no barrier"
                : "a maximum of bits over the row, with one barrier for each extreme if a row has several warps"}};
  if (quantisation.output == Quantised::fp8_e4m3) {
    decisions.push_back({"conversion", architecture.fp8_conversion ? "instruction" : "software",
                         architecture.fp8_conversion
                             ? "cvt.rn.satfinite.e4m3x2.f32"
                             : "the architecture has no conversion to e4m3; the bytes are equal"});
  }
  decisions.push_back({"layout", quantisation.layout == RowLayout::row ? "row" : "col32",
                       quantisation.layout == RowLayout::row ? "as the descriptor asks"
                                                             : "two threads store 32 neighbouring bytes of a block"});
  return decisions;
}

int column_multiple(const RowQuantisation& quantisation) {
  return quantisation.layout == RowLayout::row ? kVectorColumns : kBlockColumns;
}

void check_result(const RowQuantisation& quantisation, const cubit_quantised_rows& result, std::int64_t rows,
                  std::int64_t columns) {
  const int element_bytes = quantisation.output == Quantised::none ? 2 : 1;
  require_alignment("result.output", result.output, &result.output_stride, 1, element_bytes, 16);
  require_alignment("result.scale", result.scale, nullptr, 0, 1, 4, "align it");
  require_alignment("result.scales", result.scales, nullptr, 0, 1, 4, "align it");
  require_alignment("result.zero_points", result.zero_points, nullptr, 0, 1, 4, "align it");
  const bool is_row = quantisation.layout == RowLayout::row;
  WrittenDimension dimension[] = {
      {"result.output_stride", -1, is_row ? rows : columns / kBlockColumns, result.output_stride}};
  require_apart(dimension, is_row ? columns : kBlockColumns * rows);
}

QuantisedRows kernel_rows(const RowQuantisation& quantisation, const cubit_quantised_rows& result) {
  const int element_bytes = quantisation.output == Quantised::none ? 2 : 1;
  return {static_cast<char*>(result.output), reinterpret_cast<const char*>(result.scale),
          reinterpret_cast<char*>(result.scales), reinterpret_cast<char*>(result.zero_points),
          element_bytes * result.output_stride};
}

}  // namespace cubit::ops::quantisation
