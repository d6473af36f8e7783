#include "tools/study/accuracy/int8_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cubit::tools {
namespace {

constexpr float kLargestCode = 127;

template <class Value>
HostTensor tensor(const char* name, const char* type, std::vector<std::int64_t> shape,
                  const std::vector<Value>& values) {
  return {name, type, std::move(shape), std::as_bytes(std::span(values))};
}

std::string scale_field(std::optional<float> scale) { return scale ? "scale=tensor" : "scale=token"; }

/// The outputs of a kernel that quantises.
Int8Rows rows_of(const Matrix& input, HostTensors outputs, std::optional<float> scale) {
  Int8Rows made{input.rows, input.columns, std::move(outputs.at(0)), {}};
  if (scale) {
    made.scales = {*scale};
  } else {
    made.scales.resize(input.rows);
    std::memcpy(made.scales.data(), outputs.at(1).data(), outputs.at(1).size());
  }
  return made;
}

}  // namespace

Int8Weight quantised_weight(const Matrix& weight, bool per_channel) {
  const std::vector<std::int64_t> shape = weight.shape();
  return {weight, per_channel,
          calibrate::quantise_weights({"F32", shape, std::as_bytes(std::span(weight.values))}, calibrate::Format::int8,
                                      per_channel)};
}

Int8Rows Int8Kernels::quantize(const Matrix& rows, std::optional<float> scale, const std::string& what) const {
  const std::vector<std::uint16_t> halves = half_values(rows, what);
  const std::vector<float> given = {scale.value_or(0)};
  const std::string descriptor = "quantize:" + scale_field(scale);
  const HostTensor input = tensor("input", "F16", rows.shape(), halves);
  return rows_of(
      rows,
      scale ? runner_.run(descriptor, {input, tensor("scale", "F32", {1}, given)}) : runner_.run(descriptor, {input}),
      scale);
}

Int8Rows Int8Kernels::norm_quantize(const Matrix& rows, const Matrix& weight, std::optional<float> scale,
                                    const std::string& what) const {
  const std::vector<std::uint16_t> halves = half_values(rows, what);
  const std::vector<std::uint16_t> factors = half_values(weight, "the weight of a norm");
  const std::vector<float> given = {scale.value_or(0)};
  const std::string descriptor = "norm_quantize:" + scale_field(scale);
  const HostTensor input = tensor("input", "F16", rows.shape(), halves);
  const HostTensor norm = tensor("weight", "F16", {weight.shape()[1]}, factors);
  const Numbers numbers = {{"epsilon", kNormEpsilon}};
  return rows_of(rows,
                 scale ? runner_.run(descriptor, {input, norm, tensor("scale", "F32", {1}, given)}, numbers)
                       : runner_.run(descriptor, {input, norm}, numbers),
                 scale);
}

Int8Rows Int8Kernels::gate_quantize(const Matrix& gate, const Matrix& up, std::optional<float> scale,
                                    const std::string& what) const {
  const std::vector<std::uint16_t> gates = half_values(gate, what);
  const std::vector<std::uint16_t> ups = half_values(up, what);
  const std::vector<float> given = {scale.value_or(0)};
  const std::string descriptor = "gate_quantize:" + scale_field(scale);
  const HostTensor first = tensor("gate", "F16", gate.shape(), gates);
  const HostTensor second = tensor("up", "F16", up.shape(), ups);
  return rows_of(gate,
                 scale ? runner_.run(descriptor, {first, second, tensor("scale", "F32", {1}, given)})
                       : runner_.run(descriptor, {first, second}),
                 scale);
}

Matrix Int8Kernels::multiply(const Int8Rows& rows, const Int8Weight& weight, const std::string& what) const {
  const auto m = static_cast<std::int64_t>(rows.rows);
  const auto n = static_cast<std::int64_t>(weight.exact.rows);
  const auto k = static_cast<std::int64_t>(rows.columns);
  const bool per_token = rows.scales.size() > 1 || rows.rows == 1;
  const std::string descriptor = fmt::format("w8a8_gemm:output=fp16,activation_scale={},weight_scale={}",
                                             per_token ? "token" : "tensor", weight.per_channel ? "channel" : "tensor");
  const HostTensors outputs = runner_.run(
      descriptor,
      {tensor("activations", "I8", {m, k}, rows.codes), tensor("weights", "I8", {n, k}, weight.quantised.codes),
       tensor("activation_scales", "F32", {static_cast<std::int64_t>(rows.scales.size())}, rows.scales),
       tensor("weight_scales", "F32", {static_cast<std::int64_t>(weight.quantised.scales.size())},
              weight.quantised.scales)});
  return matrix_of_halves(rows.rows, weight.exact.rows, outputs.at(0), what);
}

std::optional<float> input_scale(InputScale kind, const Matrix& input, std::optional<float> given) {
  if (kind == InputScale::dynamic_token) return std::nullopt;
  if (kind == InputScale::static_tensor) return given.value();
  float largest = 0;
  for (const float value : input.values) largest = std::max(largest, std::fabs(value));
  return largest > 0 ? largest / kLargestCode : 1;
}

std::optional<float> Int8Steps::scale(const std::string& layer, const Matrix& input) const {
  const auto found = scales_.find(layer);
  return input_scale(kind_, input, found == scales_.end() ? std::nullopt : std::optional(found->second));
}

Matrix Int8Steps::multiply(const std::string& layer, const Int8Rows& rows, const Matrix& input) {
  const Int8Weight& weight = weights_.at(layer);
  Matrix got = kernels_.multiply(rows, weight, "the output of " + layer);
  layer_errors_[layer] = relative_error(got, product(input, weight.exact));
  return got;
}

std::vector<Matrix> Int8Steps::norm_linears(const std::string& norm, const Matrix& rows,
                                            const std::vector<std::string>& layers) {
  const Matrix& weight = block_.weights.at(norm);
  const Matrix input = rms_norm(rows, weight);
  const Int8Rows quantised = kernels_.norm_quantize(rows, weight, scale(layers.front(), input), "the input of " + norm);
  std::vector<Matrix> outputs;
  for (const std::string& layer : layers) outputs.push_back(multiply(layer, quantised, input));
  return outputs;
}

Matrix Int8Steps::linear(const std::string& layer, const Matrix& rows) {
  return multiply(layer, kernels_.quantize(rows, scale(layer, rows), "the input of " + layer), rows);
}

Matrix Int8Steps::gated_linear(const std::string& layer, const Matrix& gate, const Matrix& up) {
  const Matrix input = gated(gate, up);
  return multiply(layer, kernels_.gate_quantize(gate, up, scale(layer, input), "the input of " + layer), input);
}

}  // namespace cubit::tools
