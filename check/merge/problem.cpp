// Implements the problem of merge: checks, made-up data, and the reference in double precision.
#include <cubit/merge.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "check/host_tensors.hpp"
#include "check/made_up_data.hpp"
#include "check/merge/problem.hpp"
#include "check/random.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::merge {
namespace {

constexpr const char* kOutputs = "partial_outputs";
constexpr const char* kLse = "partial_lse";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double value_of(MergeElement element, const void* data, std::int64_t index) {
  if (element == MergeElement::fp32) return static_cast<const float*>(data)[index];
  return to_double(element == MergeElement::bf16 ? Element::bf16 : Element::fp16,
                   static_cast<const std::uint16_t*>(data)[index]);
}

void store_value(MergeElement element, void* data, std::int64_t index, float value) {
  if (element == MergeElement::fp32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] =
        from_float(element == MergeElement::bf16 ? Element::bf16 : Element::fp16, value);
  }
}

/// Allows for the rounding of the result and for float arithmetic. In heads of few bf16 channels every channel may be
/// off by half a unit in the last place, 2^-8.
double tolerance_of(const Merge& descriptor) {
  if (descriptor.output == MergeElement::fp32) return 3e-6;
  if (descriptor.output == MergeElement::fp16) return 6e-4;
  return descriptor.head_dim < 64 ? 4e-3 : 3e-3;
}

/// The names of a tensor's dimensions, from the argument table.
std::string_view dimensions_of(std::string_view name) {
  return ops::merge::arguments().find(name)->shapes.front().shape;
}

class MergeProblem final : public Problem {
 public:
  /// Checks all tensors. Throws Failure(invalid_argument).
  MergeProblem(const Merge& descriptor, Tensors inputs, bool with_lse)
      : descriptor_(descriptor), inputs_(std::move(inputs)) {
    check();
    const std::vector<std::int64_t>& shape = inputs_.find(kOutputs)->shape;
    outputs_.push_back(dense("output", tensor_type(descriptor.output), {shape.begin() + 1, shape.end()}, nullptr));
    if (with_lse) outputs_.push_back(dense("lse", "F32", {shape.begin() + 1, shape.end() - 1}, nullptr));
  }

  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override {
    std::size_t bytes = 0;
    for (const Tensor& tensor : inputs_.list()) bytes += tensor.bytes();
    return bytes;
  }
  std::size_t bytes_written() const override {
    std::size_t bytes = 0;
    for (const Tensor& tensor : outputs_) bytes += tensor.bytes();
    return bytes;
  }
  double operations() const override { return 2.0 * static_cast<double>(inputs_.find(kOutputs)->elements()); }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    const std::size_t inputs = inputs_.list().size();
    if (device_data.size() != inputs + outputs_.size()) {
      reject(fmt::format("{} device addresses", device_data.size()),
             fmt::format("this problem has {} inputs and {} outputs", inputs, outputs_.size()));
    }
    cubit_merge_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.partial_outputs = inputs_.address<void>(device_data, kOutputs);
    arguments.partial_lse = inputs_.address<float>(device_data, kLse);
    arguments.output = device_data[inputs];
    if (outputs_.size() > 1) arguments.lse = static_cast<float*>(device_data[inputs + 1]);
    const std::int64_t head_dim = descriptor_.head_dim;
    arguments.parts = static_cast<std::int32_t>(parts_);
    arguments.rows = static_cast<std::int32_t>(rows_);
    arguments.heads = static_cast<std::int32_t>(heads_);
    const std::int64_t strides[] = {rows_ * heads_, heads_, 1};
    for (int i = 0; i < 3; ++i) {
      arguments.partial_lse_strides[i] = strides[i];
      arguments.partial_output_strides[i] = strides[i] * head_dim;
    }
    for (int i = 0; i < 2; ++i) {
      arguments.lse_strides[i] = strides[i + 1];
      arguments.output_strides[i] = strides[i + 1] * head_dim;
    }
    return bytes_of_struct(arguments);
  }

  Comparison compare(std::span<const void* const> got) const override {
    if (got.size() != outputs_.size()) {
      reject(fmt::format("{} outputs", got.size()), "every output of the problem is compared",
             fmt::format("accepted: {}", outputs_.size()));
    }
    std::vector<double> errors(rows_ * heads_);
    parallel_for(rows_ * heads_, [&](std::int64_t item) {
      errors[item] = error_of(item, got[0], got.size() > 1 ? static_cast<const float*>(got[1]) : nullptr);
    });
    Comparison result{0, tolerance_of(descriptor_), "none"};
    const auto worst = std::max_element(errors.begin(), errors.end());
    if (worst == errors.end()) return result;
    result.error = *worst;
    result.worst = fmt::format("row {}, head {}", (worst - errors.begin()) / heads_, (worst - errors.begin()) % heads_);
    return result;
  }

 private:
  void check() {
    const Tensor& outputs = *inputs_.find(kOutputs);
    require_type(outputs, tensor_type(descriptor_.input));
    require_type(*inputs_.find(kLse), "F32");
    const std::vector<std::int64_t>& shape = outputs.shape;
    if (shape.size() < 3) {
      reject(fmt::format("tensor {} [{}]", kOutputs, fmt::join(shape, ", ")),
             fmt::format("it must have the dimensions {}", dimensions_of(kOutputs)));
    }
    std::vector<std::int64_t> expected = shape;
    expected.back() = descriptor_.head_dim;
    require_shape(outputs, expected, dimensions_of(kOutputs));
    parts_ = shape[0];
    heads_ = shape[shape.size() - 2];
    rows_ = 1;
    for (std::size_t i = 1; i + 2 < shape.size(); ++i) rows_ *= shape[i];
    check_sizes(descriptor_, parts_, rows_, heads_);
    require_shape(*inputs_.find(kLse), {shape.begin(), shape.end() - 1}, dimensions_of(kLse));
  }

  /// The error of one head of one row, in the norm of Problem::compare, or the error of its log-sum-exp scaled to the
  /// same tolerance, whichever is larger.
  double error_of(std::int64_t item, const void* output, const float* lse) const {
    const void* const values = inputs_.find(kOutputs)->data;
    const auto* const parts_lse = static_cast<const float*>(inputs_.find(kLse)->data);
    const std::int64_t items = rows_ * heads_;
    double largest = -kInfinity;
    for (std::int64_t part = 0; part < parts_; ++part)
      largest = std::max(largest, double{parts_lse[part * items + item]});
    std::vector<double> weights(parts_, 0);
    double sum = 0;
    for (std::int64_t part = 0; part < parts_; ++part) {
      if (parts_lse[part * items + item] != -kInfinity)
        weights[part] = std::exp(parts_lse[part * items + item] - largest);
      sum += weights[part];
    }
    double difference = 0;
    double norm = 0;
    double contributions = 0;
    for (std::int64_t channel = 0; channel < descriptor_.head_dim; ++channel) {
      double expected = 0;
      double contribution = 0;
      for (std::int64_t part = 0; part < parts_; ++part) {
        if (weights[part] == 0) continue;
        const std::int64_t index = (part * items + item) * descriptor_.head_dim + channel;
        const double term = weights[part] / sum * value_of(descriptor_.input, values, index);
        expected += term;
        contribution += std::fabs(term);
      }
      difference += std::pow(value_of(descriptor_.output, output, item * descriptor_.head_dim + channel) - expected, 2);
      norm += expected * expected;
      contributions += contribution * contribution;
    }
    const double error =
        relative_error(std::sqrt(difference), std::max(std::sqrt(norm), 0.1 * std::sqrt(contributions)));
    return lse == nullptr ? error
                          : std::max(error, lse_error(lse[item], sum == 0 ? -kInfinity : largest + std::log(sum)));
  }
  /// The error of a log-sum-exp, scaled so that the tolerance of outputs applies. The absolute tolerance covers two
  /// float roundings of a number of this size and the error of the logarithm.
  double lse_error(double got, double expected) const {
    if (got == expected) return 0;
    return tolerance_of(descriptor_) * relative_error(std::fabs(got - expected), 1e-6 + 2e-7 * std::fabs(expected));
  }

  Merge descriptor_;
  Tensors inputs_;
  std::vector<Tensor> outputs_;
  std::int64_t parts_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t heads_ = 0;
};

struct Sizes {
  std::int64_t parts = 4;
  std::int64_t rows = 64;
  std::int64_t heads = 8;
  bool lse = false;
  int pattern = 0;
};

Sizes read_sizes(const Merge& descriptor, const Numbers& numbers) {
  Sizes sizes;
  for (const auto& [name, value] : numbers) {
    if (name == "parts") {
      sizes.parts = whole_number(name, value, 1, 1 << 20);
    } else if (name == "rows") {
      sizes.rows = whole_number(name, value, 0, 1 << 24);
    } else if (name == "heads") {
      sizes.heads = whole_number(name, value, 1, 4096);
    } else if (name == "lse") {
      sizes.lse = whole_number(name, value, 0, 1) != 0;
    } else if (name == "pattern") {
      sizes.pattern = static_cast<int>(whole_number(name, value, 0, kPatterns - 1));
    } else {
      reject(fmt::format("size {}", name), "merge has no such size", "accepted: parts, rows, heads, lse, pattern");
    }
  }
  const double values = static_cast<double>(sizes.parts) * static_cast<double>(sizes.rows) *
                        static_cast<double>(sizes.heads) * descriptor.head_dim;
  require_made_up(fmt::format("partial outputs of {:.0f} values", values), values * element_bytes(descriptor.input),
                  "ask for fewer parts, rows or heads");
  return sizes;
}

constexpr int kEmptyParts = 1;  ///< the only pattern whose heads draw different numbers of random numbers

/// The log-sum-exp of one partial result of one head. -inf marks an empty partial result.
float random_lse(const Sizes& sizes, std::int64_t part, std::int64_t item, Random& random) {
  const auto normal = static_cast<float>(random.normal());
  switch (sizes.pattern) {
    case kEmptyParts:  // every fifth head has only empty partial results
      return item % 5 == 4 || random.bits() % 2 == 0 ? -std::numeric_limits<float>::infinity() : normal;
    case 2:
      return 1e4f * normal;
    case 3:
      return std::copysign(std::numeric_limits<float>::max(), normal);
    case 4:
      return 7;
    case 5:
      return 3.f * static_cast<float>(part) + normal;
    default:
      return 4 * normal;
  }
}

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const Merge descriptor = parse(text);
  const std::vector<std::string_view> names = ops::merge::arguments().input_names();
  require_names(inputs, names, "merge");
  bool with_lse = false;
  for (const auto& [name, value] : numbers) {
    if (name != "lse") reject(fmt::format("number {}", name), "merge has no such launch argument", "accepted: lse");
    with_lse = whole_number(name, value, 0, 1) != 0;
  }
  Tensors taken;
  for (const std::string_view name : names) {
    if (taken.take(inputs, name)) continue;
    reject(fmt::format("tensors without {}", name), "merge needs partial_outputs and partial_lse", "give both");
  }
  return std::make_unique<MergeProblem>(descriptor, std::move(taken), with_lse);
}

std::string random_help() {
  return "parts, rows, heads, lse, pattern (0 normal, 1 empty parts, 2 log-sum-exps far apart, 3 the largest ones, 4 "
         "equal ones and outputs that cancel, 5 ascending ones)";
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const Merge descriptor = parse(text);
  const Sizes sizes = read_sizes(descriptor, numbers);
  check_sizes(descriptor, sizes.parts, sizes.rows, sizes.heads);
  Random random(seed);
  const std::int64_t items = sizes.rows * sizes.heads;
  const std::vector<std::int64_t> shape = {sizes.parts, sizes.rows, sizes.heads};
  auto lse = std::make_unique<char[]>(4 * sizes.parts * items);
  auto* const lse_values = reinterpret_cast<float*>(lse.get());
  auto values = std::make_unique<char[]>(element_bytes(descriptor.input) * sizes.parts * items * descriptor.head_dim);
  const auto make_head = [&](std::int64_t i, Random& draws) {
    const std::int64_t part = i / items;
    lse_values[i] = random_lse(sizes, part, i % items, draws);
    const bool is_empty = std::isinf(lse_values[i]);
    for (std::int64_t at = i * descriptor.head_dim; at < (i + 1) * descriptor.head_dim; ++at) {
      auto value = static_cast<float>(draws.normal());
      if (sizes.pattern == 4) value = static_cast<float>(part % 2 == 0 ? at % 7 : -(at % 7)) + 0.01f * value;
      if (is_empty) value = std::numeric_limits<float>::quiet_NaN();
      store_value(descriptor.input, values.get(), at, value);
    }
  };
  if (sizes.pattern == kEmptyParts) {
    for (std::int64_t i = 0; i < sizes.parts * items; ++i) make_head(i, random);
  } else {
    draw_in_order(random, sizes.parts * items, 1 + descriptor.head_dim, make_head);
  }
  Tensors inputs;
  inputs.add(dense(kOutputs, tensor_type(descriptor.input), {sizes.parts, sizes.rows, sizes.heads, descriptor.head_dim},
                   nullptr),
             std::move(values));
  inputs.add(dense(kLse, "F32", shape, nullptr), std::move(lse));
  return std::make_unique<MergeProblem>(descriptor, std::move(inputs), sizes.lse);
}

}  // namespace cubit::check::merge
