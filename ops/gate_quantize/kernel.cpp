// Turns a gate_quantize descriptor into a kernel's source and report.
#include <utility>

#include "base/lifetime.hpp"
#include "ops/element/element.hpp"
#include "ops/gate_quantize/gate_quantize.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_kernel.hpp"
#include "ops/quantisation/row_shape.hpp"

namespace cubit::ops::gate_quantize {
namespace {

std::vector<Field<GateQuantize>> make_fields() {
  std::vector<Field<GateQuantize>> table = quantisation::result_fields<GateQuantize>(false);
  table.push_back(word_field<GateQuantize, GateFunction>(
      {"function", "silu, gelu, gelu_tanh", "silu", "activation of the gates"}, &GateQuantize::function,
      {{"silu", GateFunction::silu}, {"gelu", GateFunction::gelu}, {"gelu_tanh", GateFunction::gelu_tanh}}));
  table.push_back(quantisation::element_field<GateQuantize>("input", "type of gate and up", &GateQuantize::input));
  return table;
}

std::string_view function_type(GateFunction function) {
  if (function == GateFunction::silu) return "cubit::Silu";
  return function == GateFunction::gelu ? "cubit::GeluExact" : "cubit::GeluTanh";
}

}  // namespace

const std::vector<Field<GateQuantize>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

GateQuantize parse(std::string_view text) {
  const GateQuantize descriptor = parse_fields(text, fields());
  quantisation::check_fields(descriptor, text);
  return descriptor;
}

codegen::KernelSource make_source(const GateQuantize& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("core/types.cuh").include("gemm/activation_functions.cuh");
  quantisation::add_roles(header, descriptor, architecture, quantisation::kMostComputingThreads);
  header.alias("Function", function_type(descriptor.function)).alias("Input", device_type(descriptor.input));
  return quantisation::make_source(descriptor.text(), "gate_quantize", header, architecture,
                                   quantisation::kMostComputingThreads);
}

PlanReport make_report(const GateQuantize& descriptor, const codegen::Architecture& architecture) {
  PlanReport report;
  report.family = "gate_quantize";
  if (architecture.threads_per_sm < 2048)
    report.spills_allowed_because = "ptxas stops at 64 registers on this architecture, and spills a few words";
  report.decisions = quantisation::row_decisions(quantisation::kMostComputingThreads);
  report.decisions.push_back(
      {"products", "rounded to 16 bits", "a row of products stays in the registers of the gates"});
  for (Decision& decision : quantisation::result_decisions(descriptor, architecture))
    report.decisions.push_back(std::move(decision));
  return report;
}

}  // namespace cubit::ops::gate_quantize
