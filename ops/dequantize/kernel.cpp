// Turns a dequantize descriptor into a kernel's source and report, and public arguments into a launch.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "codegen/plan_header.hpp"
#include "ops/argument_checks.hpp"
#include "ops/dequantize/dequantize.hpp"
#include "ops/element/element.hpp"
#include "ops/gemm/source.hpp"
#include "templates/embedded.hpp"
#include "templates/kernels/dequantize_arguments.h"

namespace cubit::ops::dequantize {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 4;  ///< 16 warps; fewer leave a multiprocessor without enough loads in flight
constexpr int kBlockColumns = 32;

int element_bytes(const Dequantize& descriptor) { return descriptor.input == QuantisedInteger::int8 ? 1 : 4; }
int vector_columns(const Dequantize& descriptor) { return descriptor.input == QuantisedInteger::int8 ? 16 : 8; }
int column_multiple(const Dequantize& descriptor) {
  return descriptor.layout == RowLayout::row ? vector_columns(descriptor) : kBlockColumns;
}

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

void check_tensors(const Dequantize& descriptor, const cubit_dequantize_arguments& arguments) {
  require_alignment("input", arguments.input, &arguments.input_stride, 1, element_bytes(descriptor), 16);
  require_alignment("scale", arguments.scale, nullptr, 0, 1, 4, "align it");
  require_alignment("weight_scale", arguments.weight_scale, nullptr, 0, 1,
                    descriptor.weight_scale == WeightScale::channel ? 16 : 4, "align it");
  require_alignment("bias", arguments.bias, nullptr, 0, 1, 16, "align it");
  if (descriptor.residual) require_alignment("residual", arguments.residual, &arguments.residual_stride, 1, 2, 16);
  require_alignment("output", arguments.output, &arguments.output_stride, 1, 2, 16);
  WrittenDimension dimension[] = {{"output_stride", -1, arguments.rows, arguments.output_stride}};
  require_apart(dimension, arguments.columns);
}

}  // namespace

const std::vector<Field<Dequantize>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

Dequantize parse(std::string_view text) { return parse_fields(text, fields()); }

void check_sizes(const Dequantize& descriptor, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require_argument(rows >= 0 && rows <= kMost, "rows", "it must be from 0 to 2147483647", rows);
  const int multiple = column_multiple(descriptor);
  if (columns < multiple || columns > kMost || columns % multiple != 0) {
    throw Failure(
        Status::invalid_argument, fmt::format("columns = {}", columns),
        fmt::format("it must be a multiple of {} from {} to {}", multiple, multiple, kMost / multiple * multiple));
  }
  // Threads count vectors of 8 columns in four rows with 32 bits.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 36;
  require_argument(rows <= kMostElements / columns, "rows * columns", "it must be at most 68719476736", rows * columns);
}

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
  return codegen::assemble(descriptor.text(), templates::find("kernels/dequantize.cuh"), header.text(), architecture,
                           "dequantize", {kThreads, 0}, templates::embedded());
}

PlanReport make_report(const Dequantize& descriptor) {
  PlanReport report;
  report.family = "dequantize";
  report.decisions = {
      {"columns per thread", std::to_string(vector_columns(descriptor)),
       descriptor.input == QuantisedInteger::int8 ? "16 bytes of codes and 32 bytes of output"
                                                  : "32 bytes of sums and 16 bytes of output"},
      {"rows per thread", fmt::format("1 or {}, chosen at each launch", kDequantisedRows),
       "scales of columns and the bias are loaded once for all rows of a thread; few rows take one row per thread, so "
       "that more threads share the work"},
      {"arithmetic", "float, rounded once", "the result is within one rounding of the formula"}};
  return report;
}

Launch encode(const Dequantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<cubit_dequantize_arguments>(public_arguments, "cubit_dequantize_arguments");
  check_sizes(descriptor, arguments.rows, arguments.columns);
  Launch launch;
  launch.empty = arguments.rows == 0;
  if (launch.empty) return launch;
  pointers.check(&arguments);
  check_tensors(descriptor, arguments);
  DequantizeArguments parameters{};
  parameters.input = static_cast<const char*>(arguments.input);
  parameters.scale = reinterpret_cast<const char*>(arguments.scale);
  parameters.weight_scale = reinterpret_cast<const char*>(arguments.weight_scale);
  parameters.bias = static_cast<const char*>(arguments.bias);
  parameters.residual = static_cast<const char*>(arguments.residual);
  parameters.output = static_cast<char*>(arguments.output);
  parameters.input_stride = arguments.input_stride;
  parameters.residual_stride = 2 * arguments.residual_stride;
  parameters.output_stride = 2 * arguments.output_stride;
  parameters.rows = arguments.rows;
  parameters.vectors = arguments.columns / vector_columns(descriptor);
  const std::int64_t at_once = std::int64_t{device.multiprocessors} * kBlocksPerSm * kThreads;
  const bool are_few = std::int64_t{arguments.rows} * parameters.vectors <= kDequantisedRows * at_once;
  parameters.rows_per_thread = are_few ? 1 : kDequantisedRows;
  const std::int64_t groups =
      (std::int64_t{arguments.rows} + parameters.rows_per_thread - 1) / parameters.rows_per_thread;
  launch.shape = {{static_cast<unsigned>((groups * parameters.vectors + kThreads - 1) / kThreads), 1, 1}, kThreads, 0};
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

}  // namespace cubit::ops::dequantize
