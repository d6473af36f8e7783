// Turns a quantize descriptor into a kernel's source and report, and public arguments into a launch.
#include <utility>

#include "base/lifetime.hpp"
#include "ops/argument_checks.hpp"
#include "ops/element/element.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_kernel.hpp"
#include "ops/quantisation/row_shape.hpp"
#include "ops/quantize/quantize.hpp"
#include "templates/kernels/quantize_arguments.h"

namespace cubit::ops::quantize {
namespace {

std::vector<Field<Quantize>> make_fields() {
  std::vector<Field<Quantize>> table = quantisation::result_fields<Quantize>(true);
  table.push_back(quantisation::element_field<Quantize>("input", "type of the rows", &Quantize::input));
  return table;
}

}  // namespace

const std::vector<Field<Quantize>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

Quantize parse(std::string_view text) {
  const Quantize descriptor = parse_fields(text, fields());
  quantisation::check_fields(descriptor, text);
  return descriptor;
}

codegen::KernelSource make_source(const Quantize& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("core/types.cuh");
  quantisation::add_roles(header, descriptor, architecture);
  header.alias("Input", device_type(descriptor.input));
  return quantisation::make_source(descriptor.text(), "quantize", header, architecture);
}

PlanReport make_report(const Quantize& descriptor, const codegen::Architecture& architecture) {
  PlanReport report;
  report.family = "quantize";
  report.decisions = quantisation::row_decisions();
  for (Decision& decision : quantisation::result_decisions(descriptor, architecture))
    report.decisions.push_back(std::move(decision));
  return report;
}

Launch encode(const Quantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<cubit_quantize_arguments>(public_arguments, "cubit_quantize_arguments");
  quantisation::check_row_sizes(arguments.rows, arguments.columns, quantisation::column_multiple(descriptor));
  if (arguments.rows == 0) return quantisation::no_launch();
  pointers.check(&arguments);
  require_alignment("input", arguments.input, &arguments.input_stride, 1, 2, 16);
  quantisation::check_result(descriptor, arguments.result, arguments.rows, arguments.columns);
  QuantizeArguments parameters{};
  parameters.input = static_cast<const char*>(arguments.input);
  parameters.input_stride = 2 * arguments.input_stride;
  parameters.result = quantisation::kernel_rows(descriptor, arguments.result);
  parameters.shape = quantisation::row_shape(arguments.rows, arguments.columns, device);
  return quantisation::launch_of(parameters);
}

}  // namespace cubit::ops::quantize
