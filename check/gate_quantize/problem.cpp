// Implements the problem of gate_quantize: made-up data, and the reference in double precision.
#include "check/gate_quantize/problem.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include "base/parallel.hpp"
#include "check/host_tensors.hpp"
#include "check/quantisation/row_comparison.hpp"
#include "check/quantisation/row_sizes.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_shape.hpp"

namespace cubit::check::gate_quantize {
namespace {

double activated(GateFunction function, double x) {
  if (function == GateFunction::silu) return x / (1 + std::exp(-x));
  if (function == GateFunction::gelu) return x * std::erfc(-x * std::numbers::sqrt2 / 2) / 2;
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * inner));
}

/// Absolute error of the activation in float. The kernel computes 1 + erf in float, so that gelu of negative numbers
/// keeps absolute precision only.
double activation_slack(double x) { return 0x1p-21 * std::fabs(x); }

class GateProblem final : public quantisation::RowProblem {
 public:
  /// Checks the tensors. Throws Failure(invalid_argument).
  GateProblem(const GateQuantize& descriptor, Tensors inputs) : RowProblem(std::move(inputs)), descriptor_(descriptor) {
    const Tensor& gate = *tensors().find("gate");
    require_element(gate, descriptor.input, "input");
    require_element(*tensors().find("up"), descriptor.input, "input");
    require_rank(gate, 2, "[rows, columns]");
    require_shape(*tensors().find("up"), gate.shape, "[rows, columns]");
    shape_ = {descriptor, gate.shape[0], gate.shape[1], descriptor.input};
    ops::quantisation::check_row_sizes(shape_.rows, shape_.columns, ops::quantisation::column_multiple(descriptor),
                                       ops::quantisation::kMostComputingThreads);
    set_outputs(shape_.tensors());
    if (const Tensor* const scale = tensors().find("scale"); scale != nullptr)
      given_scale_ = quantisation::given_scale(*scale);
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    const std::size_t first_output = inputs().size();
    quantisation::require_addresses(device_data, first_output, outputs().size());
    cubit_gate_quantize_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.gate = tensors().address<void>(device_data, "gate");
    arguments.up = tensors().address<void>(device_data, "up");
    quantisation::set_result(arguments.result, shape_, device_data.subspan(first_output),
                             tensors().address<void>(device_data, "scale"));
    arguments.gate_stride = arguments.up_stride = shape_.columns;
    arguments.rows = static_cast<std::int32_t>(shape_.rows);
    arguments.columns = static_cast<std::int32_t>(shape_.columns);
    return bytes_of_struct(arguments);
  }

  Comparison compare(std::span<const void* const> got) const override {
    quantisation::require_outputs(got, outputs().size());
    const quantisation::ResultView result(shape_, got, given_scale_);
    std::vector<double> errors(shape_.rows);
    parallel_for(shape_.rows,
                 [&](std::int64_t row) { errors[row] = quantisation::row_error(shape_, result, row, reference(row)); });
    return quantisation::worst_of(errors, 1);
  }

 private:
  quantisation::ReferenceRow reference(std::int64_t row) const {
    const auto values = [&](const char* name) {
      const auto* const data = static_cast<const char*>(tensors().find(name)->data);
      return quantisation::row_of(descriptor_.input, data, row, shape_.columns);
    };
    const std::vector<float> gates = values("gate");
    const std::vector<float> ups = values("up");
    quantisation::ReferenceRow expected;
    for (std::int64_t column = 0; column < shape_.columns; ++column) {
      expected.values.push_back(activated(descriptor_.function, gates[column]) * ups[column]);
      expected.slack.push_back(activation_slack(gates[column]) * std::fabs(ups[column]));
    }
    return expected;
  }

  GateQuantize descriptor_;
  quantisation::ResultShape shape_;
  float given_scale_ = 0;
};

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const GateQuantize descriptor = parse(text);
  require_names(inputs, ops::gate_quantize::arguments().input_names(), "gate_quantize");
  quantisation::require_no_numbers(numbers, "gate_quantize");
  Tensors taken;
  for (const char* const name : {"gate", "up"}) quantisation::take(taken, inputs, name, "gate_quantize");
  if (descriptor.reads_scale()) quantisation::take(taken, inputs, "scale", "gate_quantize");
  return std::make_unique<GateProblem>(descriptor, std::move(taken));
}

std::string random_help() { return quantisation::RowSizes::help(); }

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const GateQuantize descriptor = parse(text);
  quantisation::RowSizes sizes = quantisation::read_row_sizes(numbers, "gate_quantize");
  ops::quantisation::check_row_sizes(sizes.rows, sizes.columns, ops::quantisation::column_multiple(descriptor),
                                     ops::quantisation::kMostComputingThreads);
  Tensors inputs;
  quantisation::add_rows(inputs, "gate", descriptor.input, sizes, seed);
  const Tensor& gate = inputs.list()[0];
  if (sizes.special) {
    quantisation::add_special_values(descriptor.input, descriptor.output, sizes.rows, sizes.columns,
                                     static_cast<char*>(gate.data));
  }
  const float scale = quantisation::made_up_scale(descriptor.input, descriptor.output, gate.elements(),
                                                  static_cast<const char*>(gate.data), sizes.pattern);
  sizes.pattern = 0;
  quantisation::add_rows(inputs, "up", descriptor.input, sizes, seed + 1);
  if (descriptor.reads_scale()) quantisation::add_scale(inputs, scale);
  return std::make_unique<GateProblem>(descriptor, std::move(inputs));
}

}  // namespace cubit::check::gate_quantize
