// Implements the problem of w4_quantize: checks, made-up data, and the comparison with the reference.
#include <cubit/w4_quantize.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "check/host_tensors.hpp"
#include "check/made_up_data.hpp"
#include "check/random_rows.hpp"
#include "check/w4_quantize/problem.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::w4_quantize {
namespace {

/// Counts the numbers that differ in the error, and describes the first of these numbers in `worst`.
template <class Number, class Same>
void compare_numbers(const Tensor& tensor, const void* got, const Number* expected, Problem::Comparison& comparison,
                     Same same) {
  using Given = std::conditional_t<std::is_same_v<Number, double>, float, Number>;
  const auto* const found = static_cast<const Given*>(got);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (same(found[i], expected[i])) continue;
    if (comparison.error++ > 0) continue;
    comparison.worst = fmt::format("{}[{}, {}], which is {}, not {}", tensor.name, i / tensor.shape[1],
                                   i % tensor.shape[1], found[i], expected[i]);
  }
}

/// The tolerance of root-mean-square errors, which the kernel sums in float and in another order. A sum beyond the
/// largest float is infinite.
bool same_root(float got, double expected) {
  constexpr double kLargest = 1e18;
  if (std::isnan(expected)) return std::isnan(got);
  if (expected > kLargest) return got > kLargest;
  return std::fabs(got - expected) <= 1e-5 * expected + 1e-18;
}

class QuantizeProblem final : public Problem {
 public:
  /// Checks the weights. Throws Failure(invalid_argument).
  QuantizeProblem(const W4Quantize& descriptor, Tensors inputs, bool with_errors)
      : descriptor_(descriptor), inputs_(std::move(inputs)) {
    const Tensor& weights = inputs_.list()[0];
    require_element(weights, descriptor.input, "input");
    if (weights.shape.size() != 2) {
      reject(fmt::format("tensor weights [{}]", fmt::join(weights.shape, ", ")),
             "it must have the dimensions [n, k], as a linear layer has them");
    }
    n_ = weights.shape[0];
    k_ = weights.shape[1];
    check_sizes(n_, k_);
    const std::int64_t groups = groups_of(descriptor, k_);
    const bool by_n = descriptor.format == W4Format::awq;
    add("qweight", "I32", by_n ? k_ : k_ / 8, by_n ? n_ / 8 : n_);
    add("scales", "F16", groups, n_);
    if (descriptor.stores_zeros()) add("qzeros", "I32", groups, n_ / 8);
    if (!with_errors) return;
    add("max_error", "F32", groups, n_);
    add("rms_error", "F32", groups, n_);
  }

  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override { return inputs_.list()[0].bytes(); }
  std::size_t bytes_written() const override {
    std::size_t bytes = 0;
    for (const Tensor& output : outputs_) bytes += output.bytes();
    return bytes;
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    if (device_data.size() != 1 + outputs_.size()) {
      reject(fmt::format("{} device addresses", device_data.size()),
             fmt::format("this problem has 1 input and {} outputs", outputs_.size()));
    }
    const auto address = [&](std::string_view name) -> void* {
      for (std::size_t i = 0; i < outputs_.size(); ++i)
        if (outputs_[i].name == name) return device_data[1 + i];
      return nullptr;
    };
    cubit_w4_quantize_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.weights = device_data[0];
    arguments.qweight = address("qweight");
    arguments.qzeros = address("qzeros");
    arguments.scales = address("scales");
    arguments.max_error = static_cast<float*>(address("max_error"));
    arguments.rms_error = static_cast<float*>(address("rms_error"));
    arguments.weight_stride = k_;
    arguments.n = static_cast<std::int32_t>(n_);
    arguments.k = static_cast<std::int32_t>(k_);
    return bytes_of_struct(arguments);
  }

  Comparison compare(std::span<const void* const> got) const override {
    if (got.size() != outputs_.size()) {
      reject(fmt::format("{} outputs", got.size()), "every output of the problem is compared",
             fmt::format("accepted: {}", outputs_.size()));
    }
    const auto* const weights = static_cast<const std::uint16_t*>(inputs_.list()[0].data);
    const Quantised expected = quantise(descriptor_, weights, n_, k_);
    Comparison result{0, 0, "none"};
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::string& name = outputs_[i].name;
      const auto equal = [](auto a, auto b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      if (name == "qweight") compare_numbers(outputs_[i], got[i], expected.qweight.data(), result, equal);
      if (name == "qzeros") compare_numbers(outputs_[i], got[i], expected.qzeros.data(), result, equal);
      if (name == "scales") compare_numbers(outputs_[i], got[i], expected.scales.data(), result, equal);
      if (name == "max_error") compare_numbers(outputs_[i], got[i], expected.max_error.data(), result, equal);
      if (name == "rms_error") compare_numbers(outputs_[i], got[i], expected.rms_error.data(), result, same_root);
    }
    return result;
  }

 private:
  void add(const char* name, std::string_view type, std::int64_t rows, std::int64_t columns) {
    outputs_.push_back(dense(name, type, {rows, columns}, nullptr));
  }

  W4Quantize descriptor_;
  Tensors inputs_;
  std::vector<Tensor> outputs_;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
};

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const W4Quantize descriptor = parse(text);
  require_names(inputs, ops::w4_quantize::arguments().input_names(), "w4_quantize");
  bool with_errors = true;
  for (const auto& [name, value] : numbers) {
    if (name != "errors")
      reject(fmt::format("number {}", name), "w4_quantize has no such launch argument", "accepted: errors");
    with_errors = whole_number(name, value, 0, 1) != 0;
  }
  Tensors taken;
  if (!taken.take(inputs, "weights")) {
    reject("tensors without weights", "w4_quantize needs them", "give weights [n, k], as a linear layer has them");
  }
  return std::make_unique<QuantizeProblem>(descriptor, std::move(taken), with_errors);
}

std::string random_help() { return fmt::format("n, k, errors, {}", kRowPatternsHelp); }

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const W4Quantize descriptor = parse(text);
  std::int64_t n = 1024;
  std::int64_t k = 1024;
  int pattern = 0;
  bool with_errors = true;
  constexpr double kMost = 1 << 24;
  for (const auto& [name, value] : numbers) {
    if (name == "n") {
      n = whole_number(name, value, 0, kMost);
    } else if (name == "k") {
      k = whole_number(name, value, 1, kMost);
    } else if (name == "pattern") {
      pattern = static_cast<int>(whole_number(name, value, 0, kRowPatterns - 1));
    } else if (name == "errors") {
      with_errors = whole_number(name, value, 0, 1) != 0;
    } else {
      reject(fmt::format("size {}", name), "w4_quantize has no such size", "accepted: n, k, pattern, errors");
    }
  }
  check_sizes(n, k);
  require_made_up(fmt::format("n = {} and k = {}", n, k), 2 * static_cast<double>(n) * static_cast<double>(k),
                  "ask for smaller sizes");
  Tensors inputs;
  inputs.add(dense("weights", element_type(descriptor.input), {n, k}, nullptr),
             random_rows(descriptor.input, n, static_cast<int>(k), pattern, seed));
  return std::make_unique<QuantizeProblem>(descriptor, std::move(inputs), with_errors);
}

}  // namespace cubit::check::w4_quantize
