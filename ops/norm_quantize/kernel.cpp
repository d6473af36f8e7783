// Turns a norm_quantize descriptor into a kernel's source and report.

#include <utility>

#include "base/lifetime.hpp"
#include "ops/element/element.hpp"
#include "ops/norm_quantize/norm_quantize.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_kernel.hpp"
#include "ops/quantisation/row_shape.hpp"

namespace cubit::ops::norm_quantize {
namespace {

std::vector<Field<NormQuantize>> make_fields() {
  std::vector<Field<NormQuantize>> table = quantisation::result_fields<NormQuantize>(false);
  table.push_back(word_field<NormQuantize, Norm>({"norm", "rms, layer", "rms", "RMSNorm or LayerNorm"},
                                                 &NormQuantize::norm, {{"rms", Norm::rms}, {"layer", Norm::layer}}));
  table.push_back(flag_field<NormQuantize>("residual", "whether a residual is added first, and the sum written",
                                           &NormQuantize::residual));
  table.push_back(
      flag_field<NormQuantize>("bias", "whether a bias is added to the normalised row", &NormQuantize::bias));
  table.push_back(quantisation::element_field<NormQuantize>("input", "type of the rows", &NormQuantize::input));
  return table;
}

}  // namespace

const std::vector<Field<NormQuantize>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

NormQuantize parse(std::string_view text) {
  const NormQuantize descriptor = parse_fields(text, fields());
  quantisation::check_fields(descriptor, text);
  return descriptor;
}

codegen::KernelSource make_source(const NormQuantize& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("core/types.cuh").include("quantisation/row_norm.cuh");
  quantisation::add_roles(header, descriptor, architecture, quantisation::kMostComputingThreads);
  header.alias("Norm", descriptor.norm == Norm::rms ? "cubit::RmsNorm" : "cubit::LayerNorm");
  header.flag("kAddsResidual", descriptor.residual).flag("kAddsBias", descriptor.bias);
  header.alias("Input", device_type(descriptor.input));
  return quantisation::make_source(descriptor.text(), "norm_quantize", header, architecture,
                                   quantisation::kMostComputingThreads);
}

PlanReport make_report(const NormQuantize& descriptor, const codegen::Architecture& architecture) {
  PlanReport report;
  report.family = "norm_quantize";
  report.decisions = quantisation::row_decisions(quantisation::kMostComputingThreads);
  const bool is_rms = descriptor.norm == Norm::rms;
  report.decisions.push_back(
      {"statistics", is_rms ? "1 reduction" : "2 reductions",
       is_rms ? "the sum of squares" : "the sum, then the squares of differences from the mean, which do not cancel"});
  for (Decision& decision : quantisation::result_decisions(descriptor, architecture))
    report.decisions.push_back(std::move(decision));
  return report;
}

}  // namespace cubit::ops::norm_quantize
