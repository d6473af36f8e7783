// Implements the problem of dequantize: checks, and the reference in double precision.
#include "check/dequantize/problem.hpp"

#include <cubit/matrix_layout.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/parallel.hpp"
#include "check/dequantize/random_problem.hpp"
#include "check/gemm_problem.hpp"
#include "check/host_tensors.hpp"
#include "check/quantisation/row_comparison.hpp"
#include "check/quantisation/row_sizes.hpp"

namespace cubit::check::dequantize {
namespace {

class DequantizeProblem final : public quantisation::RowProblem {
 public:
  /// Checks the tensors. Throws Failure(invalid_argument).
  DequantizeProblem(const Dequantize& descriptor, Tensors inputs)
      : RowProblem(std::move(inputs)), descriptor_(descriptor) {
    const Tensor& input = *tensors().find("input");
    require_type(input, descriptor.input == QuantisedInteger::int8 ? "I8" : "I32");
    const bool is_row = descriptor.layout == RowLayout::row;
    require_rank(input, is_row ? 2 : 3, is_row ? "[rows, columns]" : "[columns / 32, rows, 32]");
    if (!is_row)
      require_shape(input, {input.shape[0], input.shape[1], kLayoutBlockColumns}, "[columns / 32, rows, 32]");
    shape_.quantisation.output = Quantised::none;
    shape_.rows = input.shape[is_row ? 0 : 1];
    shape_.columns = is_row ? input.shape[1] : kLayoutBlockColumns * input.shape[0];
    shape_.element = descriptor.output;
    check_sizes(descriptor, shape_.rows, shape_.columns);
    check_others();
    set_outputs(shape_.tensors());
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    const std::size_t first_output = inputs().size();
    quantisation::require_addresses(device_data, first_output, 1);
    cubit_dequantize_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.input = tensors().address<void>(device_data, "input");
    arguments.scale = tensors().address<float>(device_data, "scale");
    arguments.weight_scale = tensors().address<float>(device_data, "weight_scale");
    arguments.bias = tensors().address<void>(device_data, "bias");
    arguments.residual = tensors().address<void>(device_data, "residual");
    arguments.output = device_data[first_output];
    arguments.input_stride = descriptor_.layout == RowLayout::row ? shape_.columns : kLayoutBlockColumns * shape_.rows;
    arguments.residual_stride = arguments.output_stride = shape_.columns;
    arguments.rows = static_cast<std::int32_t>(shape_.rows);
    arguments.columns = static_cast<std::int32_t>(shape_.columns);
    return bytes_of_struct(arguments);
  }

  Comparison compare(std::span<const void* const> got) const override {
    quantisation::require_outputs(got, 1);
    const quantisation::ResultView result(shape_, got, 0);
    std::vector<double> errors(shape_.rows);
    parallel_for(shape_.rows,
                 [&](std::int64_t row) { errors[row] = quantisation::row_error(shape_, result, row, reference(row)); });
    return quantisation::worst_of(errors, 1);
  }

 private:
  void check_others() const {
    const Tensor& scale = *tensors().find("scale");
    require_type(scale, "F32");
    const bool is_token = descriptor_.scale == ScaleScope::token;
    require_shape(scale, {is_token ? shape_.rows : 1}, is_token ? "[rows]" : "[1]");
    if (const Tensor* const weights = tensors().find("weight_scale"); weights != nullptr) {
      const bool is_channel = descriptor_.weight_scale == WeightScale::channel;
      require_type(*weights, "F32");
      require_shape(*weights, {is_channel ? shape_.columns : 1}, is_channel ? "[columns]" : "[1]");
    }
    for (const char* const name : {"bias", "residual"}) {
      const Tensor* const tensor = tensors().find(name);
      if (tensor == nullptr) continue;
      require_element(*tensor, descriptor_.output, "output");
      if (tensor->name == "bias") require_shape(*tensor, {shape_.columns}, "[columns]");
      if (tensor->name == "residual") require_shape(*tensor, {shape_.rows, shape_.columns}, "[rows, columns]");
    }
  }

  double integer(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = descriptor_.layout == RowLayout::row
                                   ? row * shape_.columns + column
                                   : offset_of(MatrixLayout::col32, kLayoutBlockColumns * shape_.rows, row, column);
    const void* const data = tensors().find("input")->data;
    return descriptor_.input == QuantisedInteger::int8 ? static_cast<const std::int8_t*>(data)[place]
                                                       : static_cast<const std::int32_t*>(data)[place];
  }
  /// Element `index` of a tensor of floats that may have one element only.
  double scale(const char* name, std::int64_t index) const {
    const Tensor* const tensor = tensors().find(name);
    if (tensor == nullptr) return 1;
    return static_cast<const float*>(tensor->data)[tensor->elements() == 1 ? 0 : index];
  }
  /// A row of a 16-bit tensor; zeros if the problem does not have the tensor.
  std::vector<float> values(const char* name, std::int64_t row) const {
    const Tensor* const tensor = tensors().find(name);
    if (tensor == nullptr) return std::vector<float>(shape_.columns);
    return quantisation::row_of(descriptor_.output, static_cast<const char*>(tensor->data), row, shape_.columns);
  }

  quantisation::ReferenceRow reference(std::int64_t row) const {
    const std::vector<float> bias = values("bias", 0);
    const std::vector<float> residual = values("residual", row);
    quantisation::ReferenceRow expected;
    for (std::int64_t column = 0; column < shape_.columns; ++column) {
      const double product = integer(row, column) * scale("scale", row) * scale("weight_scale", column);
      const double value = apply_function(descriptor_.function, product + bias[column]);
      expected.values.push_back(value + residual[column]);
      // Rounding of each step to float. No function is steeper than 1.13, and each keeps absolute precision only.
      const double magnitudes = std::fabs(product) + std::fabs(bias[column]) + std::fabs(residual[column]);
      expected.slack.push_back(0x1p-21 * magnitudes);
    }
    return expected;
  }

  Dequantize descriptor_;
  quantisation::ResultShape shape_;
};

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const Dequantize descriptor = parse(text);
  require_names(inputs, ops::dequantize::arguments().input_names(), "dequantize");
  quantisation::require_no_numbers(numbers, "dequantize");
  Tensors taken;
  for (const char* const name : {"input", "scale"}) quantisation::take(taken, inputs, name, "dequantize");
  if (descriptor.weight_scale != WeightScale::none) quantisation::take(taken, inputs, "weight_scale", "dequantize");
  if (descriptor.bias) quantisation::take(taken, inputs, "bias", "dequantize");
  if (descriptor.residual) quantisation::take(taken, inputs, "residual", "dequantize");
  return std::make_unique<DequantizeProblem>(descriptor, std::move(taken));
}

std::string random_help() {
  return "rows, columns, special (1: some rows with NaN, infinities or results beyond the largest number)";
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const Dequantize descriptor = parse(text);
  if (numbers.contains("pattern"))
    reject("size pattern", "dequantize has no such size", "accepted: rows, columns, special");
  const quantisation::RowSizes sizes = quantisation::read_row_sizes(numbers, "dequantize");
  check_sizes(descriptor, sizes.rows, sizes.columns);
  return std::make_unique<DequantizeProblem>(descriptor, made_up_tensors(descriptor, sizes, seed));
}

}  // namespace cubit::check::dequantize
