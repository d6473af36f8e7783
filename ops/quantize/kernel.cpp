// Turns a quantize descriptor into a kernel's source and report.
#include <utility>

#include "base/lifetime.hpp"
#include "ops/element/element.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_kernel.hpp"
#include "ops/quantize/quantize.hpp"

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

}  // namespace cubit::ops::quantize
