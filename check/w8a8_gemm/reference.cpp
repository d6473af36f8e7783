#include "check/w8a8_gemm/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "base/parallel.hpp"
#include "check/byte_values.hpp"
#include "check/gemm_problem.hpp"
#include "check/matrix_products.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::w8a8_gemm {
namespace {

constexpr int kStepK = 32;                    ///< values along k of a step of tensor cores
constexpr int kPromotedK = 128;               ///< values along k of a chain with accumulate=promoted
constexpr double kLossOfStep = 33 * 0x1p-13;  ///< relative to the absolute products so far: see reference.hpp
/// The largest derivative of a function: that of gelu.
constexpr double kSteepest = 1.13;

/// The values of all bytes of a type.
std::array<double, 256> values_of(W8Element element) {
  std::array<double, 256> values{};
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<std::uint8_t>(i);
    values[i] = element == W8Element::int8 ? static_cast<std::int8_t>(byte) : fp8_to_double(kE4m3, byte);
  }
  return values;
}

const std::uint8_t* row_of(const Tensor& tensor, int row) {
  return static_cast<const std::uint8_t*>(tensor.data) + row * tensor.shape[1];
}

/// The scale at `index`, or the only one.
float scale_at(const Tensor& scales, int index) {
  return static_cast<const float*>(scales.data)[scales.shape[0] == 1 ? 0 : index];
}

double addend_at(const W8a8Gemm& descriptor, const Tensor& tensor, std::int64_t index) {
  return to_double(ops::w8a8_gemm::addend_type(descriptor), static_cast<const std::uint16_t*>(tensor.data)[index]);
}

/// What a zero point subtracts from a sum of products, which are exact as integers.
double zero_product(const Operands& operands, int row, int column) {
  if (operands.activation_zeros == nullptr) return 0;
  const auto* const zeros = static_cast<const std::int32_t*>(operands.activation_zeros->data);
  const double zero = zeros[operands.activation_zeros->shape[0] == 1 ? 0 : row];
  return zero * static_cast<const std::int32_t*>(operands.weight_sums->data)[column];
}

/// Value and bias of a column of the weights.
Reference biased(const W8a8Gemm& descriptor, const Operands& operands, const SumRow& sums, int row, int column) {
  const double scale = static_cast<double>(scale_at(*operands.activation_scales, row)) *
                       static_cast<double>(scale_at(*operands.weight_scales, column));
  const double truncation = sums.chains.empty() ? 0 : kLossOfStep * sums.chains[column] * scale;
  const double of_zero = zero_product(operands, row, column);
  Reference result{(sums.sums[column] - of_zero) * scale, (sums.absolute[column] + std::fabs(of_zero)) * scale,
                   truncation};
  if (operands.bias == nullptr) return result;
  const double bias = addend_at(descriptor, *operands.bias, column);
  return {result.value + bias, result.contributions + std::fabs(bias), truncation};
}

/// How many steps of the chain have begun to add up value `i` of k, or come after it: these lose bits beside it.
int steps_from(const W8a8Gemm& descriptor, int i, int k) {
  const int end = descriptor.promotes() ? std::min(k, i / kPromotedK * kPromotedK + kPromotedK) : k;
  return (end + kStepK - 1) / kStepK - i / kStepK;
}

using WeightsOf = std::function<void(int column, int first, std::span<double> weights)>;

/// Calls store(row, column, sums of the row with the column) for all rows and columns, on several threads.
template <class Store>
void multiply_all(const RowBlocks& rows, int m, int n, const WeightsOf& weights_of, const Store& store) {
  constexpr int kColumns = 8;  // they share the activations, which are read from memory once
  parallel_for((n + kColumns - 1) / kColumns, [&](std::int64_t unit) {
    const int first = static_cast<int>(unit) * kColumns;
    const std::vector<ColumnSums> columns = multiply(rows, first, std::min(kColumns, n - first), weights_of);
    for (std::size_t column = 0; column < columns.size(); ++column)
      for (int row = 0; row < m; ++row) store(row, first + static_cast<int>(column), columns[column]);
  });
}

}  // namespace

std::vector<SumRow> sums_of_rows(const W8a8Gemm& descriptor, const Operands& operands) {
  const std::array<double, 256> values = values_of(descriptor.element);
  const int n = operands.n();
  const RowBlocks rows(operands.m(), operands.k(),
                       [&](int row, int i) { return values[row_of(*operands.activations, row)[i]]; });
  const auto weights_of = [&](int column, int first, std::span<double> weights) {
    const std::uint8_t* const bytes = row_of(*operands.weights, column) + first;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = values[bytes[i]];
  };
  const int m = operands.m();
  std::vector<SumRow> result(m, {std::vector<double>(n), std::vector<double>(n), {}});
  multiply_all(rows, m, n, weights_of, [&](int row, int column, const ColumnSums& sums) {
    result[row].sums[column] = sums.product(row);
    result[row].absolute[column] = sums.magnitude(row);
  });
  if (descriptor.element == W8Element::int8) return result;
  for (SumRow& row : result) row.chains.resize(n);
  const auto weights_by_steps = [&](int column, int first, std::span<double> weights) {
    weights_of(column, first, weights);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] *= steps_from(descriptor, first + static_cast<int>(i), operands.k());
  };
  multiply_all(rows, m, n, weights_by_steps,
               [&](int row, int column, const ColumnSums& sums) { result[row].chains[column] = sums.magnitude(row); });
  return result;
}

Reference reference_of(const W8a8Gemm& descriptor, const Operands& operands, const SumRow& sums, int row, int column) {
  if (descriptor.output == W8Output::int32) return {sums.sums[column], sums.absolute[column], 0};
  Reference result = biased(descriptor, operands, sums, row, column);
  result.value = apply_function(descriptor.function, result.value);
  if (descriptor.function != GemmFunction::none) result.truncation *= kSteepest;
  if (descriptor.is_gated()) {
    const Reference up = biased(descriptor, operands, sums, row, column + operands.n() / 2);
    result.truncation = std::fabs(up.value) * result.truncation + std::fabs(result.value) * up.truncation +
                        result.truncation * up.truncation;
    result.contributions = std::fabs(up.value) * result.contributions + std::fabs(result.value) * up.contributions;
    result.value *= up.value;
  }
  if (operands.residual == nullptr) return result;
  const std::int64_t columns = operands.residual->shape[1];
  const double residual = addend_at(descriptor, *operands.residual, row * columns + column);
  return {result.value + residual, result.contributions + std::fabs(residual), result.truncation};
}

std::int64_t sum_of_weights(const Tensor& weights, int row) {
  const auto* const bytes = reinterpret_cast<const std::int8_t*>(row_of(weights, row));
  return std::accumulate(bytes, bytes + weights.shape[1], std::int64_t{0});
}

double random_truncation(int k) {
  const int steps = (k + kStepK - 1) / kStepK;
  return 0x1p-13 * std::sqrt(33.0 * steps);
}

bool has_exact_bytes(const W8a8Gemm& descriptor) {
  return descriptor.output == W8Output::int8 && descriptor.element == W8Element::int8 &&
         (descriptor.function == GemmFunction::none || descriptor.function == GemmFunction::relu);
}

std::int8_t exact_byte(const W8a8Gemm& descriptor, const Operands& operands, const SumRow& sums, int row, int column) {
  auto value = static_cast<float>(static_cast<std::int64_t>(sums.sums[column] - zero_product(operands, row, column)));
  value = value * scale_at(*operands.activation_scales, row);
  value = value * scale_at(*operands.weight_scales, column);
  if (operands.bias != nullptr) value += static_cast<float>(addend_at(descriptor, *operands.bias, column));
  if (descriptor.function == GemmFunction::relu && value < 0) value = 0;
  if (operands.residual != nullptr)
    value += static_cast<float>(addend_at(descriptor, *operands.residual, row * operands.residual->shape[1] + column));
  const float steps = value / scale_at(*operands.output_scale, 0);
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(steps), -128.0F, 127.0F));
}

}  // namespace cubit::check::w8a8_gemm
