// Implements the problem of norm_quantize: made-up data, and the reference in double precision.
#include "check/norm_quantize/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/parallel.hpp"
#include "check/host_tensors.hpp"
#include "check/quantisation/row_comparison.hpp"
#include "check/quantisation/row_sizes.hpp"
#include "check/random.hpp"
#include "ops/quantisation/quantised_rows.hpp"
#include "ops/quantisation/row_shape.hpp"

namespace cubit::check::norm_quantize {
namespace {

constexpr double kEpsilon = 1e-5;

class NormProblem final : public quantisation::RowProblem {
 public:
  /// Checks the tensors. Throws Failure(invalid_argument).
  NormProblem(const NormQuantize& descriptor, Tensors inputs, double epsilon)
      : RowProblem(std::move(inputs)), descriptor_(descriptor), epsilon_(static_cast<float>(epsilon)) {
    ops::norm_quantize::check_epsilon(epsilon);
    const Tensor& input = *tensors().find("input");
    require_rank(input, 2, "[rows, columns]");
    shape_ = {descriptor, input.shape[0], input.shape[1], descriptor.input};
    ops::quantisation::check_row_sizes(shape_.rows, shape_.columns, ops::quantisation::column_multiple(descriptor),
                                       ops::quantisation::kMostComputingThreads);
    for (const Tensor& tensor : tensors().list()) {
      if (tensor.name == "scale") {
        given_scale_ = quantisation::given_scale(tensor);
        continue;
      }
      require_element(tensor, descriptor.input, "input");
      const bool is_row = tensor.name == "weight" || tensor.name == "bias";
      if (is_row) require_shape(tensor, {shape_.columns}, "[columns]");
      if (!is_row) require_shape(tensor, input.shape, "[rows, columns]");
    }
    std::vector<Tensor> outputs = shape_.tensors();
    if (descriptor.residual)
      outputs.insert(outputs.begin(), dense("sum", element_type(descriptor.input), input.shape, nullptr));
    set_outputs(std::move(outputs));
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    std::size_t first_output = inputs().size();
    quantisation::require_addresses(device_data, first_output, outputs().size());
    cubit_norm_quantize_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.input = tensors().address<void>(device_data, "input");
    arguments.residual = tensors().address<void>(device_data, "residual");
    arguments.weight = tensors().address<void>(device_data, "weight");
    arguments.bias = tensors().address<void>(device_data, "bias");
    if (descriptor_.residual) arguments.sum = device_data[first_output++];
    quantisation::set_result(arguments.result, shape_, device_data.subspan(first_output),
                             tensors().address<void>(device_data, "scale"));
    arguments.input_stride = arguments.residual_stride = arguments.sum_stride = shape_.columns;
    arguments.rows = static_cast<std::int32_t>(shape_.rows);
    arguments.columns = static_cast<std::int32_t>(shape_.columns);
    arguments.epsilon = epsilon_;
    return bytes_of_struct(arguments);
  }

  Comparison compare(std::span<const void* const> got) const override {
    quantisation::require_outputs(got, outputs().size());
    const quantisation::ResultView result(shape_, got.subspan(descriptor_.residual ? 1 : 0), given_scale_);
    std::vector<double> errors(shape_.rows);
    parallel_for(shape_.rows, [&](std::int64_t row) {
      const std::vector<float> sums = sums_of(row);
      errors[row] = quantisation::row_error(shape_, result, row, reference(sums));
      if (descriptor_.residual && !has_sums(row, sums, static_cast<const char*>(got[0])))
        errors[row] = std::numeric_limits<double>::infinity();
    });
    return quantisation::worst_of(errors, 1);
  }

 private:
  std::vector<float> values_of(const char* name, std::int64_t row) const {
    const auto* const data = static_cast<const char*>(tensors().find(name)->data);
    return quantisation::row_of(descriptor_.input, data, row, shape_.columns);
  }
  /// The row that is normalised: the sum with the residual is rounded to 16 bits.
  std::vector<float> sums_of(std::int64_t row) const {
    std::vector<float> sums = values_of("input", row);
    if (!descriptor_.residual) return sums;
    const std::vector<float> residual = values_of("residual", row);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::uint16_t bits = from_float(descriptor_.input, sums[i] + residual[i]);
      sums[i] = static_cast<float>(to_double(descriptor_.input, bits));
    }
    return sums;
  }
  /// Sums are exact, but for the bits of a NaN.
  bool has_sums(std::int64_t row, const std::vector<float>& expected, const char* data) const {
    const std::vector<float> found = quantisation::row_of(descriptor_.input, data, row, shape_.columns);
    return std::equal(found.begin(), found.end(), expected.begin(),
                      [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
  }

  quantisation::ReferenceRow reference(const std::vector<float>& row) const {
    const auto count = static_cast<double>(row.size());
    double sum = 0;
    double peak = 0;
    for (const float x : row) {
      sum += x;
      peak = std::max(peak, std::fabs(double{x}));
    }
    const double mean = descriptor_.norm == Norm::layer ? sum / count : 0;
    double squares = 0;
    for (const float x : row) squares += (x - mean) * (x - mean);
    double factor = 1 / std::sqrt(squares / count + epsilon_);
    // Squares beyond float make the kernel's row NaN; sum and peak are NaN or infinite if a value is.
    if (!(squares < std::numeric_limits<float>::max()) || !std::isfinite(sum))
      factor = std::numeric_limits<double>::quiet_NaN();
    const std::vector<float> weight = values_of("weight", 0);
    const std::vector<float> bias = descriptor_.bias ? values_of("bias", 0) : std::vector<float>(row.size());
    constexpr double kFloat = 0x1p-21;  // a few roundings of float sums and products
    quantisation::ReferenceRow expected;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double scaled = (row[i] - mean) * factor * weight[i];
      expected.values.push_back(scaled + bias[i]);
      // The kernel adds multiples of 2^-16, which round to subnormal numbers below 2^-110.
      const double largest = std::max(peak, 0x1p-112);
      const double of_mean = descriptor_.norm == Norm::layer ? largest * factor * std::fabs(weight[i]) : 0;
      expected.slack.push_back(kFloat * (std::fabs(scaled) + std::fabs(bias[i]) + of_mean));
    }
    return expected;
  }

  NormQuantize descriptor_;
  quantisation::ResultShape shape_;
  float epsilon_;
  float given_scale_ = 0;
};

/// Adds a tensor [columns] of normal values with the given mean and deviation.
void add_normal(Tensors& tensors, const char* name, Element element, std::int64_t columns, double mean,
                double deviation, Random& random) {
  auto storage = std::make_unique<char[]>(2 * columns);
  for (std::int64_t i = 0; i < columns; ++i) {
    const std::uint16_t bits = from_float(element, static_cast<float>(mean + deviation * random.normal()));
    std::memcpy(storage.get() + 2 * i, &bits, sizeof bits);
  }
  tensors.add(dense(name, element_type(element), {columns}, nullptr), std::move(storage));
}

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const NormQuantize descriptor = parse(text);
  require_names(inputs, ops::norm_quantize::arguments().input_names(), "norm_quantize");
  double epsilon = kEpsilon;
  for (const auto& [name, value] : numbers) {
    if (name != "epsilon") reject("number " + name, "norm_quantize has no such launch argument", "accepted: epsilon");
    epsilon = value;
  }
  Tensors taken;
  quantisation::take(taken, inputs, "input", "norm_quantize");
  if (descriptor.residual) quantisation::take(taken, inputs, "residual", "norm_quantize");
  quantisation::take(taken, inputs, "weight", "norm_quantize");
  if (descriptor.bias) quantisation::take(taken, inputs, "bias", "norm_quantize");
  if (descriptor.reads_scale()) quantisation::take(taken, inputs, "scale", "norm_quantize");
  return std::make_unique<NormProblem>(descriptor, std::move(taken), epsilon);
}

std::string random_help() { return quantisation::RowSizes::help() + ", epsilon (1e-5)"; }

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const NormQuantize descriptor = parse(text);
  Numbers size_numbers = numbers;
  const auto given = size_numbers.extract("epsilon");
  const double epsilon = given.empty() ? kEpsilon : given.mapped();
  quantisation::RowSizes sizes = quantisation::read_row_sizes(size_numbers, "norm_quantize");
  ops::quantisation::check_row_sizes(sizes.rows, sizes.columns, ops::quantisation::column_multiple(descriptor),
                                     ops::quantisation::kMostComputingThreads);
  Tensors inputs;
  quantisation::add_rows(inputs, "input", descriptor.input, sizes, seed);
  if (sizes.special) {
    quantisation::add_special_values(descriptor.input, descriptor.output, sizes.rows, sizes.columns,
                                     static_cast<char*>(inputs.list()[0].data));
  }
  if (descriptor.residual) quantisation::add_rows(inputs, "residual", descriptor.input, sizes, seed + 1);
  Random random(seed + 2);
  add_normal(inputs, "weight", descriptor.input, sizes.columns, 1, 0.2, random);
  if (descriptor.bias) add_normal(inputs, "bias", descriptor.input, sizes.columns, 0, 0.1, random);
  // Normalised values are mostly below 3, so that some of them saturate.
  constexpr float kLargest = 3;
  if (descriptor.reads_scale()) quantisation::add_scale(inputs, kLargest / quantisation::most_of(descriptor.output));
  return std::make_unique<NormProblem>(descriptor, std::move(inputs), epsilon);
}

}  // namespace cubit::check::norm_quantize
