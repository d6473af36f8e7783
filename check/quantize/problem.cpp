// Implements the problem of quantize: checks, made-up data, and the exact comparison with the reference.
#include "check/quantize/problem.hpp"

#include <utility>

#include "base/parallel.hpp"
#include "check/host_tensors.hpp"
#include "check/quantisation/quantised_rows.hpp"
#include "check/quantisation/row_sizes.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_shape.hpp"

namespace cubit::check::quantize {
namespace {

class QuantizeProblem final : public quantisation::RowProblem {
 public:
  /// Checks the tensors. Throws Failure(invalid_argument).
  QuantizeProblem(const Quantize& descriptor, Tensors inputs) : RowProblem(std::move(inputs)), descriptor_(descriptor) {
    const Tensor& input = *tensors().find("input");
    require_element(input, descriptor.input, "input");
    require_rank(input, 2, "[rows, columns]");
    shape_ = {descriptor, input.shape[0], input.shape[1]};
    ops::quantisation::check_row_sizes(shape_.rows, shape_.columns, ops::quantisation::column_multiple(descriptor));
    set_outputs(shape_.tensors());
    if (const Tensor* const scale = tensors().find("scale"); scale != nullptr)
      given_scale_ = quantisation::given_scale(*scale);
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    const std::size_t first_output = inputs().size();
    quantisation::require_addresses(device_data, first_output, outputs().size());
    cubit_quantize_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.input = tensors().address<void>(device_data, "input");
    quantisation::set_result(arguments.result, shape_, device_data.subspan(first_output),
                             tensors().address<void>(device_data, "scale"));
    arguments.input_stride = shape_.columns;
    arguments.rows = static_cast<std::int32_t>(shape_.rows);
    arguments.columns = static_cast<std::int32_t>(shape_.columns);
    return bytes_of_struct(arguments);
  }

  /// Every byte, scale and zero point is exact, so that the error is the number of those that differ.
  Comparison compare(std::span<const void* const> got) const override {
    quantisation::require_outputs(got, outputs().size());
    const quantisation::ResultView result(shape_, got, given_scale_);
    const auto* const data = static_cast<const char*>(tensors().find("input")->data);
    std::vector<double> errors(shape_.rows);
    parallel_for(shape_.rows, [&](std::int64_t row) {
      const std::vector<float> values = quantisation::row_of(descriptor_.input, data, row, shape_.columns);
      const quantisation::QuantisedRow expected = quantisation::quantise(descriptor_, values, given_scale_);
      errors[row] = static_cast<double>(result.differences(row, expected));
    });
    return quantisation::worst_of(errors, 0);
  }

 private:
  Quantize descriptor_;
  quantisation::ResultShape shape_;
  float given_scale_ = 0;
};

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const Quantize descriptor = parse(text);
  require_names(inputs, ops::quantize::arguments().input_names(), "quantize");
  quantisation::require_no_numbers(numbers, "quantize");
  Tensors taken;
  quantisation::take(taken, inputs, "input", "quantize");
  if (descriptor.scale == ScaleScope::tensor) quantisation::take(taken, inputs, "scale", "quantize");
  return std::make_unique<QuantizeProblem>(descriptor, std::move(taken));
}

std::string random_help() { return quantisation::RowSizes::help(); }

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const Quantize descriptor = parse(text);
  const quantisation::RowSizes sizes = quantisation::read_row_sizes(numbers, "quantize");
  ops::quantisation::check_row_sizes(sizes.rows, sizes.columns, ops::quantisation::column_multiple(descriptor));
  Tensors inputs;
  quantisation::add_rows(inputs, "input", descriptor.input, sizes, seed);
  const Tensor& input = inputs.list()[0];
  auto* const data = static_cast<char*>(input.data);
  if (sizes.special)
    quantisation::add_special_values(descriptor.input, descriptor.output, sizes.rows, sizes.columns, data);
  if (descriptor.scale == ScaleScope::tensor) {
    quantisation::add_scale(inputs, quantisation::made_up_scale(descriptor.input, descriptor.output, input.elements(),
                                                                data, sizes.pattern));
  }
  return std::make_unique<QuantizeProblem>(descriptor, std::move(inputs));
}

}  // namespace cubit::check::quantize
