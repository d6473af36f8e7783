#include "tools/checkpoint/eight_bit_layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cubit/quantised_weights.hpp>
#include <limits>
#include <span>
#include <string_view>

#include "files/text/error.hpp"

namespace cubit::tools {
namespace {

const TensorView* tensor_named(const std::vector<TensorView>& tensors, std::string_view name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const TensorView& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_view(const TensorView& tensor, const std::string& rule, const std::string& remedy) {
  throw BadInput(fmt::format("tensor {} {} [{}]", tensor.name, tensor.type, fmt::join(tensor.shape, ", ")), rule,
                 remedy);
}

/// compressed-tensors writes zero points of symmetric layers, too.
void require_zeros(const TensorView& tensor) {
  const bool has_other =
      std::any_of(tensor.data.begin(), tensor.data.end(), [](std::byte byte) { return byte != std::byte{0}; });
  if (has_other)
    refuse_view(tensor, "w8a8_gemm has no zero points of weights",
                "accepted: symmetric quantisation, whose zeros are 0");
}

bool asks_for(const std::string& descriptor, const std::string& field) {
  return descriptor.find(field + ",") != std::string::npos || descriptor.ends_with(field);
}

bool has_zero_points(const std::string& descriptor) { return asks_for(descriptor, "zero_points=true"); }

/// Whether the results are the sums themselves, so that no scale is read.
bool sums_only(const std::string& descriptor) { return asks_for(descriptor, "output=int32"); }

}  // namespace

bool is_eight_bit_layer(const std::vector<TensorView>& tensors) {
  const TensorView* const weights = tensor_named(tensors, "weights");
  return weights != nullptr && tensor_named(tensors, "weight_scale") != nullptr &&
         (weights->type == "I8" || weights->type == "F8_E4M3");
}

EightBitLayer::EightBitLayer(const std::vector<TensorView>& tensors, const std::string& descriptor) {
  const TensorView& weights = *tensor_named(tensors, "weights");
  if (weights.shape.size() != 2) refuse_view(weights, "weights have two dimensions", "accepted: [n, k]");
  rows_ = weights.shape[0];
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "weight_scale") {
      add_scales(tensor, "weight_scales");
    } else if (tensor.name == "input_scale") {
      add_scales(tensor, "activation_scales");
      if (scales_.back().size() != 1) refuse_view(tensor, "a layer has one scale of activations", "accepted: [1]");
    } else if (tensor.name == "input_zero_point") {
      add_zero(tensor, has_zero_points(descriptor));
    } else if (tensor.name.ends_with("zero_point")) {
      require_zeros(tensor);
    } else {
      tensors_.push_back(tensor);
    }
  }
  require_fields(descriptor);
  if (has_zero_points(descriptor)) add_sums();
  if (sums_only(descriptor))
    std::erase_if(tensors_, [](const TensorView& tensor) { return tensor.name.ends_with("_scales"); });
}

/// Scales are positive and finite, as w8a8_gemm demands.
void EightBitLayer::add_scales(const TensorView& tensor, const char* name) {
  if (tensor.type != "F32" && tensor.type != "F16" && tensor.type != "BF16")
    refuse_view(tensor, "its type is not that of scales", "accepted: F32, F16, BF16");
  const std::vector<float>& scales =
      scales_.emplace_back(calibrate::float_values({tensor.type, tensor.shape, tensor.data}));
  const auto count = static_cast<std::int64_t>(scales.size());
  const bool is_column = tensor.shape.size() <= 1 || (tensor.shape.size() == 2 && tensor.shape[1] == 1);
  if (!is_column || (count != 1 && count != rows_))
    refuse_view(tensor, fmt::format("the layer has {} output channels", rows_),
                fmt::format("accepted: [{}, 1] or [1]", rows_));
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (!(scales[i] > 0 && scales[i] <= std::numeric_limits<float>::max()))
      refuse_view(tensor, fmt::format("scale {} is {}", i, scales[i]), "a scale is positive and finite");
  tensors_.push_back({name, "F32", {count}, std::as_bytes(std::span(scales))});
}

/// compressed-tensors writes the zero point of symmetric activations, too, which is 0.
void EightBitLayer::add_zero(const TensorView& tensor, bool is_wanted) {
  const bool is_byte = tensor.type == "I8";
  if ((!is_byte && tensor.type != "I32") || tensor.data.size() != (is_byte ? 1 : sizeof(std::int32_t)))
    refuse_view(tensor, "a layer has one zero point of activations", "accepted: I8 [1], I32 [1]");
  std::int32_t zero = 0;
  if (is_byte) {
    const int code = std::to_integer<int>(tensor.data[0]);
    zero = code < 128 ? code : code - 256;
  } else {
    std::memcpy(&zero, tensor.data.data(), sizeof zero);
  }
  if (!is_wanted && zero != 0)
    refuse_view(tensor, fmt::format("the layer's activations have the zero point {}", zero),
                "ask for zero_points=true");
  if (!is_wanted) return;
  integers_.push_back({zero});
  tensors_.push_back({"activation_zeros", "I32", {1}, std::as_bytes(std::span(integers_.back()))});
}

void EightBitLayer::add_sums() {
  const TensorView& weights = *tensor_named(tensors_, "weights");
  const std::int64_t columns = weights.shape[1];
  std::vector<std::int32_t>& sums = integers_.emplace_back(rows_);
  for (std::int64_t row = 0; row < rows_; ++row)
    for (const std::byte value : weights.data.subspan(row * columns, columns))
      sums[row] += static_cast<std::int8_t>(value);
  tensors_.push_back({"weight_sums", "I32", {rows_}, std::as_bytes(std::span(sums))});
}

/// Refuses a descriptor that would read the layer in another way.
void EightBitLayer::require_fields(const std::string& descriptor) const {
  if (!descriptor.starts_with("w8a8_gemm")) return;
  const auto require = [&](bool wanted, const std::string& field, const std::string& standard,
                           const std::string& rule) {
    if (asks_for(descriptor, field) != wanted)
      throw BadInput(descriptor, rule, "ask for " + (wanted ? field : standard));
  };
  const bool is_fp8 = tensor_named(tensors_, "weights")->type == "F8_E4M3";
  require(is_fp8, "element=fp8_e4m3", "element=int8",
          fmt::format("the layer's weights are {}", is_fp8 ? "e4m3" : "int8"));
  if (sums_only(descriptor)) return;
  const std::int64_t scales = tensor_named(tensors_, "weight_scales")->shape[0];
  if (rows_ != 1)
    require(scales == 1, "weight_scale=tensor", "weight_scale=channel",
            fmt::format("the layer's weights have {} {}", scales, scales == 1 ? "scale" : "scales"));
  if (tensor_named(tensors_, "activation_scales") != nullptr)
    require(true, "activation_scale=tensor", "", "the layer has one scale for all activations");
}

}  // namespace cubit::tools
