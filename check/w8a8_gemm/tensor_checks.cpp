// Refusals of values that no quantiser writes, and the exact comparison of second outputs.
#include "check/w8a8_gemm/tensor_checks.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "check/host_tensors.hpp"
#include "check/quantisation/quantised_rows.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::w8a8_gemm {

void check_scales(const Tensor* scales, bool is_of_bytes) {
  if (scales == nullptr) return;
  for (std::int64_t i = 0; i < scales->elements(); ++i) {
    const float scale = static_cast<const float*>(scales->data)[i];
    const bool is_in_range = !is_of_bytes || (scale >= 0x1p-100F && scale <= 0x1p100F);
    if (std::isfinite(scale) && scale > 0 && is_in_range) continue;
    reject(fmt::format("{}[{}] = {}", scales->name, i, scale),
           is_of_bytes ? "it must be from 2^-100 to 2^100" : "it must be positive and finite");
  }
}

void check_sums(const Operands& operands) {
  if (operands.weight_sums == nullptr) return;
  const auto* const sums = static_cast<const std::int32_t*>(operands.weight_sums->data);
  for (int row = 0; row < operands.n(); ++row) {
    const std::int64_t sum = sum_of_weights(*operands.weights, row);
    if (sums[row] != sum)
      reject(fmt::format("weight_sums[{}] = {}", row, sums[row]),
             fmt::format("row {} of weights has the sum {}", row, sum), "compute them with weight_sums");
  }
}

int second_differences(const W8a8Gemm& descriptor, const Operands& operands, std::int64_t first, int count,
                       std::span<const void* const> got) {
  RowQuantisation quantisation;
  quantisation.output = descriptor.second_output == SecondOutput::int8 ? Quantised::int8 : Quantised::fp8_e4m3;
  quantisation.scale = ScaleScope::tensor;
  const auto* const stored = static_cast<const std::uint16_t*>(got[0]) + first;
  std::vector<float> values;
  for (int i = 0; i < count; ++i)
    values.push_back(static_cast<float>(to_double(ops::w8a8_gemm::addend_type(descriptor), stored[i])));
  const float scale = *static_cast<const float*>(operands.second_scale->data);
  const std::vector<std::uint8_t> expected = quantisation::quantise(quantisation, values, scale).bytes;
  const auto* const found = static_cast<const std::uint8_t*>(got[1]) + first;
  int different = 0;
  for (int i = 0; i < count; ++i) different += found[i] != expected[i];
  return different;
}

}  // namespace cubit::check::w8a8_gemm
