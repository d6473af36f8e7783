// Turns a dequantize descriptor into a kernel's source and report.
#include <fmt/format.h>

#include "base/lifetime.hpp"
#include "codegen/plan_header.hpp"
#include "ops/dequantize/dequantize.hpp"
#include "ops/element/element.hpp"
#include "ops/gemm/source.hpp"
#include "templates/embedded.hpp"
#include "templates/kernels/quantisation/dequantize_arguments.h"

namespace cubit::ops::dequantize {
namespace {

std::vector<Field<Dequantize>> make_fields() {
  return {
      word_field<Dequantize, QuantisedInteger>({"input", "int8, int32", "int8", "type of the codes or sums"},
                                               &Dequantize::input,
                                               {{"int8", QuantisedInteger::int8}, {"int32", QuantisedInteger::int32}}),
      word_field<Dequantize, ScaleScope>({"scale", "token, tensor", "token", "a scale for each row, or one scale"},
                                         &Dequantize::scale,
                                         {{"token", ScaleScope::token}, {"tensor", ScaleScope::tensor}}),
      word_field<Dequantize, WeightScale>(
          {"weight_scale", "none, tensor, channel", "none", "a second scale: none, one, or one for each column"},
          &Dequantize::weight_scale,
          {{"none", WeightScale::none}, {"tensor", WeightScale::tensor}, {"channel", WeightScale::channel}}),
      word_field<Dequantize, GemmFunction>(
          {"function", "none, relu, silu, gelu, gelu_tanh", "none", "applied to the scaled number and its bias"},
          &Dequantize::function,
          {{"none", GemmFunction::none},
           {"relu", GemmFunction::relu},
           {"silu", GemmFunction::silu},
           {"gelu", GemmFunction::gelu},
           {"gelu_tanh", GemmFunction::gelu_tanh}}),
      flag_field<Dequantize>("bias", "whether a bias is added before the function", &Dequantize::bias),
      flag_field<Dequantize>("residual", "whether a residual is added after the function", &Dequantize::residual),
      word_field<Dequantize, RowLayout>({"layout", "row, col32", "row", "order of the input in memory"},
                                        &Dequantize::layout, {{"row", RowLayout::row}, {"col32", RowLayout::col32}}),
      word_field<Dequantize, Element>({"output", "fp16, bf16", "fp16", "type of output, bias and residual"},
                                      &Dequantize::output, {{"fp16", Element::fp16}, {"bf16", Element::bf16}})};
}

}  // namespace

const std::vector<Field<Dequantize>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

Dequantize parse(std::string_view text) { return parse_fields(text, fields()); }

codegen::KernelSource make_source(const Dequantize& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("gemm/activation_functions.cuh").include("quantisation/integer_codes.cuh");
  header.include("quantisation/row_layouts.cuh").constant("kThreads", kThreads);
  header.flag("kScalesTokens", descriptor.scale == ScaleScope::token);
  header.flag("kHasWeightScale", descriptor.weight_scale != WeightScale::none);
  header.flag("kScalesChannels", descriptor.weight_scale == WeightScale::channel);
  header.flag("kAddsBias", descriptor.bias).flag("kAddsResidual", descriptor.residual);
  header.alias("Codes", descriptor.input == QuantisedInteger::int8 ? "cubit::Int8Vector" : "cubit::Int32Vector");
  header.alias("Layout", descriptor.layout == RowLayout::row ? "cubit::RowMajor" : "cubit::Col32");
  header.alias("Function", gemm::function_type(descriptor.function));
  header.alias("Output", device_type(descriptor.output));
  return codegen::assemble(descriptor.text(), templates::find("kernels/quantisation/dequantize.cuh"), header.text(),
                           architecture, "dequantize", {kThreads, 0}, templates::embedded());
}

PlanReport make_report(const Dequantize& descriptor) {
  PlanReport report;
  report.family = "dequantize";
  report.decisions = {
      {"columns per thread", std::to_string(kVectorColumns),
       descriptor.input == QuantisedInteger::int8 ? "8 bytes of codes and 16 bytes of output"
                                                  : "32 bytes of sums and 16 bytes of output"},
      {"rows per thread", fmt::format("1 or {}, chosen at each launch", kDequantisedRows),
       "scales of columns and the bias are loaded once for all rows of a thread; few rows take one row per thread, so "
       "that more threads share the work"},
      {"arithmetic", "float, rounded once", "the result is within one rounding of the formula"}};
  return report;
}

}  // namespace cubit::ops::dequantize
