// Implements the problem of w4a16_gemm: checks of tensors against the descriptor, the launch arguments, and the
// comparison with the reference.
#include "check/w4a16_gemm/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "check/gemm_problem.hpp"
#include "check/host_tensors.hpp"
#include "check/w4a16_gemm/packed_shapes.hpp"
#include "ops/element/element.hpp"
#include "ops/gemm/gemm.hpp"

namespace cubit::check::w4a16_gemm {

bool LaunchNumbers::set(const W4a16Gemm& descriptor, std::string_view name, double value) {
  if (name == "decomposition") {
    decomposition =
        static_cast<std::int32_t>(whole_number(name, value, CUBIT_W4A16_AUTOMATIC, CUBIT_W4A16_SPLIT_K_ATOMIC));
    check_decomposition(descriptor, decomposition);
  } else if (name == "splits") {
    splits = static_cast<std::int32_t>(whole_number(name, value, 0, ops::gemm::kMostSplits));
  } else {
    return false;
  }
  return true;
}

GemmProblem::GemmProblem(W4a16Gemm descriptor, Tensors inputs, const LaunchNumbers& numbers)
    : descriptor_(std::move(descriptor)), inputs_(std::move(inputs)), numbers_(numbers) {
  check();
  outputs_.push_back(
      dense("output", element_type(descriptor_.element), {m(), output_columns(descriptor_, n())}, nullptr));
}

namespace {

/// The remedy for a tensor of a wrong type: another descriptor that takes the type, if there is one.
std::string remedy_of_type(W4a16Gemm descriptor, std::string_view name, std::string_view type) {
  std::string otherwise = name == "scales" ? "accepted: F16, or BF16 of numbers that F16 has" : "give it of that type";
  const bool is_elements = name == "activations" || name == "weight" || name == "residual";
  for (const Element element : {Element::bf16, Element::fp16}) {
    if (!is_elements || type != element_type(element)) continue;
    descriptor.element = element;
    return remedy_of_change(descriptor, element == Element::bf16 ? "element=bf16" : "element=fp16", otherwise);
  }
  return otherwise;
}

}  // namespace

void GemmProblem::check_shape(std::string_view name, std::string_view type, std::array<std::int64_t, 2> shape) const {
  const Tensor* const tensor = find(name);
  if (tensor == nullptr) return;
  if (tensor->type != type) {
    reject(fmt::format("tensor {} of type {}", name, tensor->type),
           fmt::format("the descriptor {} wants {}", descriptor_.text(), type),
           remedy_of_type(descriptor_, name, tensor->type));
  }
  if (std::equal(tensor->shape.begin(), tensor->shape.end(), shape.begin(), shape.end())) return;
  reject(shape_text(*tensor), fmt::format("{} with m = {}, n = {} and k = {} wants [{}, {}]", descriptor_.text(), m(),
                                          n(), k(), shape[0], shape[1]));
}

LayerColumns GemmProblem::layer_columns() const {
  if (descriptor_.is_dense()) return {weights().shape[0]};
  LayerColumns columns = {};
  for (int layer = 0; layer < descriptor_.layers; ++layer) columns[layer] = scales(layer).shape[1];
  return columns;
}

void GemmProblem::check_layer(int layer) const {
  const Tensor& own = scales(layer);
  require_rank(own, 2, "[groups, n]");
  const PackedShapes packed = {*find(name_in_layer("qweight", layer)), own, find(name_in_layer("qzeros", layer)),
                               own.shape[1], activations().shape[1]};
  check_looks(descriptor_, packed);
  check_group_size(descriptor_, packed);
}

/// m and k come from the activations, and the columns of each layer from its scales or from dense weights.
void GemmProblem::check() const {
  require_rank(activations(), 2, "[m, k]");
  if (descriptor_.is_dense()) {
    require_rank(weights(), 2, "[n, k]");
  } else {
    for (int layer = 0; layer < descriptor_.layers; ++layer) check_layer(layer);
  }
  check_layers(descriptor_, layer_columns());
  check_sizes(descriptor_, activations().shape[0], columns_of_layers(layer_columns()), activations().shape[1]);
  const std::string_view element = element_type(descriptor_.element);
  check_shape("activations", element, {m(), k()});
  check_shape("weight", element, {n(), k()});
  for (int layer = 0; layer < descriptor_.layers; ++layer) {
    if (!descriptor_.is_dense()) check_packed_weights(layer);
    check_bias(layer);
  }
  check_order();
  check_shape("residual", element, {m(), output_columns(descriptor_, n())});
}

/// All layers have the groups of the first one, because they have its k.
void GemmProblem::check_packed_weights(int layer) const {
  const std::int64_t groups = scales().shape[0];
  const std::int64_t columns = layer_columns()[layer];
  const bool by_n = descriptor_.format == W4Format::awq;
  const int in_word = word_weights(descriptor_);
  check_shape(name_in_layer("scales", layer), "F16", {groups, columns});
  check_shape(name_in_layer("qweight", layer), "I32", {by_n ? k() : k() / in_word, by_n ? columns / in_word : columns});
  check_shape(name_in_layer("qzeros", layer), "I32", {groups, columns / in_word});
}

void GemmProblem::check_bias(int layer) const {
  const Tensor* const bias = find(name_in_layer("bias", layer));
  if (bias == nullptr) return;
  require_rank(*bias, 1, "[n]");
  const std::int64_t columns = layer_columns()[layer];
  if (bias->type == element_type(descriptor_.element) && bias->shape[0] == columns) return;
  reject(fmt::format("{} of type {}", shape_text(*bias), bias->type),
         fmt::format("it must be F16, BF16 or F32 [{}]", columns));
}

void GemmProblem::check_order() const {
  if (const Tensor* const order = find("g_idx")) check_group_numbers(*order, k(), scales().shape[0]);
}

std::size_t GemmProblem::bytes_read() const {
  std::size_t bytes = 0;
  for (const Tensor& input : inputs_.list()) bytes += input.bytes();
  return m() == 0 ? 0 : bytes;
}

std::size_t GemmProblem::bytes_written() const { return outputs_[0].bytes(); }

double GemmProblem::operations() const { return 2.0 * m() * n() * k(); }

std::vector<std::byte> GemmProblem::arguments(std::span<void* const> device_data) const {
  const std::size_t inputs = inputs_.list().size();
  if (device_data.size() != inputs + outputs_.size()) {
    reject(fmt::format("{} device addresses", device_data.size()),
           fmt::format("this problem has {} inputs and {} output", inputs, outputs_.size()));
  }
  const auto address = [&](std::string_view name) { return inputs_.address<const void>(device_data, name); };
  cubit_w4a16_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = address("activations");
  arguments.qweight = address("qweight");
  arguments.qzeros = address("qzeros");
  arguments.scales = address("scales");
  arguments.weight = address("weight");
  arguments.g_idx = inputs_.address<const std::int32_t>(device_data, "g_idx");
  arguments.bias = address("bias");
  arguments.residual = address("residual");
  arguments.output = device_data[inputs];
  arguments.activation_stride = k();
  arguments.residual_stride = arguments.output_stride = outputs_[0].shape[1];
  arguments.m = m();
  arguments.qweight_2 = address("qweight_2");
  arguments.qzeros_2 = address("qzeros_2");
  arguments.scales_2 = address("scales_2");
  arguments.bias_2 = address("bias_2");
  arguments.qweight_3 = address("qweight_3");
  arguments.qzeros_3 = address("qzeros_3");
  arguments.scales_3 = address("scales_3");
  arguments.bias_3 = address("bias_3");
  const LayerColumns columns = layer_columns();
  arguments.n = static_cast<std::int32_t>(columns[0]);
  arguments.n_2 = static_cast<std::int32_t>(columns[1]);
  arguments.n_3 = static_cast<std::int32_t>(columns[2]);
  arguments.k = k();
  if (descriptor_.activation_order) arguments.groups = static_cast<std::int32_t>(scales().shape[0]);
  arguments.decomposition = numbers_.decomposition;
  arguments.splits = numbers_.splits;
  return bytes_of_struct(arguments);
}

double GemmProblem::element(const Tensor& tensor, std::int64_t index) const {
  return to_double(descriptor_.element, static_cast<const std::uint16_t*>(tensor.data)[index]);
}

PackedWeights GemmProblem::packed_weights(int layer) const {
  PackedWeights packed{.n = static_cast<int>(layer_columns()[layer]), .k = k()};
  if (descriptor_.is_dense()) {
    packed.dense = static_cast<const std::uint16_t*>(weights().data);
    return packed;
  }
  const Tensor* const zeros = find(name_in_layer("qzeros", layer));
  const Tensor* const order = find("g_idx");
  packed.qweight = static_cast<const std::uint32_t*>(find(name_in_layer("qweight", layer))->data);
  packed.qzeros = zeros == nullptr ? nullptr : static_cast<const std::uint32_t*>(zeros->data);
  packed.scales = static_cast<const std::uint16_t*>(scales(layer).data);
  packed.g_idx = order == nullptr ? nullptr : static_cast<const std::int32_t*>(order->data);
  return packed;
}

std::vector<ColumnSums> GemmProblem::multiply_columns(const RowBlocks& activations, int first, int count) const {
  std::vector<ColumnSums> columns;
  int begin = 0;  // of the layer's columns
  for (int layer = 0; layer < descriptor_.layers; ++layer) {
    const PackedWeights packed = packed_weights(layer);
    const int own = std::max(first, begin) - begin;
    const int end = std::min(first + count, begin + packed.n) - begin;
    begin += packed.n;
    if (own >= end) continue;
    const auto values = [&](int column, int start, std::span<double> weights) {
      weights_of_column(descriptor_, packed, column, start, weights);
    };
    std::vector<ColumnSums> some = multiply(activations, own, end - own, values);
    if (const Tensor* const bias = find(name_in_layer("bias", layer)))
      for (int column = own; column < end; ++column) some[column - own].add(element(*bias, column));
    std::move(some.begin(), some.end(), std::back_inserter(columns));
  }
  return columns;
}

void GemmProblem::reference_columns(const RowBlocks& activations, int first, int count, double* reference,
                                    double* scale) const {
  const std::int64_t columns = outputs_[0].shape[1];
  const Tensor* const residual = find("residual");
  const std::vector<ColumnSums> values = multiply_columns(activations, first, count);
  std::vector<ColumnSums> ups;
  if (descriptor_.is_gated()) ups = multiply_columns(activations, first + n() / 2, count);
  for (int column = 0; column < count; ++column) {
    for (int row = 0; row < m(); ++row) {
      const std::int64_t at = row * columns + first + column;
      reference[at] = apply_function(descriptor_.function, values[column].product(row));
      scale[at] = values[column].magnitude(row);
      if (descriptor_.is_gated()) {
        const double up = ups[column].product(row);
        scale[at] = std::fabs(up) * scale[at] + std::fabs(reference[at]) * ups[column].magnitude(row);
        reference[at] *= up;
      }
      if (residual == nullptr) continue;
      reference[at] += element(*residual, at);
      scale[at] += std::fabs(element(*residual, at));
    }
  }
}

namespace {

/// The error of one output, less the rounding of subnormal fp16 numbers, which are 2^-24 apart and which no kernel can
/// avoid. The error is NaN if exactly one of the two numbers is NaN. The error is zero if both are NaN, or if the
/// output is the infinity that the reference rounds to.
double beyond_rounding(Element element, std::uint16_t got, double reference, double tolerance) {
  const double found = to_double(element, got);
  if (std::isnan(found) && std::isnan(reference)) return 0;
  const double error = std::fabs(difference_of(element, found, reference, tolerance));
  if (element != Element::fp16 || std::fabs(reference) >= 0x1p-14) return error;
  const double beyond = error - 0x1p-25;
  return beyond < 0 ? 0 : beyond;  // NaN stays NaN
}

}  // namespace

/// More than twice the rounding of the output's type. In few bf16 columns every column may be off by half a unit in the
/// last place, 2^-8.
double GemmProblem::tolerance() const {
  constexpr int kFewTerms = 128;
  // With activation order each weight is rounded before the output is, and a gated output has two such factors. Sums of
  // many terms average these roundings, and sums of few terms do not.
  const bool has_few_terms = descriptor_.activation_order && k() < kFewTerms;
  const int roundings = !has_few_terms ? 1 : descriptor_.is_gated() ? 3 : 2;
  if (descriptor_.element == Element::fp16) return roundings * 6e-4;
  return roundings * (outputs_[0].shape[1] < 64 ? 4e-3 : 3e-3);
}

Problem::Comparison GemmProblem::compare(std::span<const void* const> got) const {
  if (got.size() != 1) reject(fmt::format("{} outputs", got.size()), "w4a16_gemm has one");
  const std::int64_t columns = outputs_[0].shape[1];
  std::vector<double> reference(m() * columns);
  std::vector<double> scale(m() * columns);
  if (m() > 0) {
    constexpr std::int64_t kColumns = 8;  // they share the activations, which are read from memory once
    const RowBlocks rows(
        m(), k(), [&](int row, int i) { return element(activations(), static_cast<std::int64_t>(row) * k() + i); });
    parallel_for((columns + kColumns - 1) / kColumns, [&](std::int64_t unit) {
      const std::int64_t first = unit * kColumns;
      reference_columns(rows, static_cast<int>(first), static_cast<int>(std::min(kColumns, columns - first)),
                        reference.data(), scale.data());
    });
  }
  std::vector<double> errors(m());
  const auto* const output = static_cast<const std::uint16_t*>(got[0]);
  const auto compare_row = [&](std::int64_t row) {
    double difference = 0;
    double norm = 0;
    double contributions = 0;
    for (std::int64_t at = row * columns; at < (row + 1) * columns; ++at) {
      difference += std::pow(beyond_rounding(descriptor_.element, output[at], reference[at], tolerance()), 2);
      // The norm leaves infinities out. Relative to an infinity every error would be small, even where the function
      // clips it.
      if (!std::isfinite(reference[at]) || !std::isfinite(scale[at]) ||
          !std::isfinite(to_double(descriptor_.element, output[at])))
        continue;
      norm += reference[at] * reference[at];
      contributions += scale[at] * scale[at];
    }
    errors[row] = relative_error(std::sqrt(difference), std::max(std::sqrt(norm), 0.1 * std::sqrt(contributions)));
  };
  constexpr std::int64_t kOutputs = 16384;  // worth a thread
  parallel_for(m(), compare_row, kOutputs / columns + 1);
  if (errors.empty()) return {0, tolerance(), "none"};
  const auto worst = std::max_element(errors.begin(), errors.end());
  return {*worst, tolerance(), fmt::format("row {}", worst - errors.begin())};
}

}  // namespace cubit::check::w4a16_gemm
