#include "tools/checkpoint/unpacked_layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <cubit/w4_checkpoint.hpp>
#include <string_view>
#include <utility>

#include "files/text/error.hpp"

namespace cubit::tools {
namespace {

template <class Number>
void transpose_bytes(const TensorView& tensor, std::byte* dst) {
  std::vector<Number> numbers(tensor.data.size() / sizeof(Number));
  std::memcpy(numbers.data(), tensor.data.data(), tensor.data.size());
  std::vector<Number> result(numbers.size());
  transpose_w4(std::span<const Number>(numbers), tensor.shape[0], std::span(result));
  std::memcpy(dst, result.data(), tensor.data.size());
}

}  // namespace

bool is_packed_layer(const std::vector<TensorView>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorView& tensor) { return tensor.name == "weight_packed"; });
}

UnpackedLayer::UnpackedLayer(const std::vector<TensorView>& tensors) {
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "weight_shape") continue;
    if (tensor.name == "weight_packed") {
      add_transposed(tensor, "qweight");
    } else if (tensor.name == "weight_scale") {
      add_transposed(tensor, "scales");
    } else if (tensor.name == "weight_zero_point") {
      add_transposed(tensor, "qzeros");
      has_zeros_ = true;
    } else {
      tensors_.push_back(tensor);
      if (tensor.name == "weight_g_idx") tensors_.back().name = "g_idx";
    }
  }
}

void UnpackedLayer::add_transposed(const TensorView& tensor, const char* name) {
  const bool has_words = tensor.type == "I32";
  const bool is_scales = std::string_view(name) == "scales";
  if (tensor.shape.size() != 2 || (is_scales ? tensor.type != "F16" && tensor.type != "BF16" : !has_words)) {
    throw BadInput(fmt::format("tensor {} {} [{}]", tensor.name, tensor.type, fmt::join(tensor.shape, ", ")),
                   "it is not the tensor of a packed layer",
                   is_scales ? "accepted: F16 or BF16 with two dimensions" : "accepted: I32 with two dimensions");
  }
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(tensor.data.size());
  has_words ? transpose_bytes<std::uint32_t>(tensor, bytes.get()) : transpose_bytes<std::uint16_t>(tensor, bytes.get());
  tensors_.push_back({name, tensor.type, {tensor.shape[1], tensor.shape[0]}, {bytes.get(), tensor.data.size()}});
  storage_.push_back(std::move(bytes));
}

}  // namespace cubit::tools
