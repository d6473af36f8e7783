#include "tools/checkpoint/permuted_activations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cubit/w4_order.hpp>
#include <span>
#include <utility>

#include "files/text/error.hpp"
#include "tools/checkpoint/layer.hpp"

namespace cubit::tools {
namespace {

template <class Number>
std::vector<Number> numbers_of(const TensorView& tensor) {
  std::vector<Number> numbers(tensor.data.size() / sizeof(Number));
  std::memcpy(numbers.data(), tensor.data.data(), numbers.size() * sizeof(Number));
  return numbers;
}

}  // namespace

std::optional<TensorView> take_permutation(std::vector<TensorView>& layer) {
  const auto found =
      std::find_if(layer.begin(), layer.end(), [](const TensorView& one) { return one.name == kPermutation; });
  if (found == layer.end()) return std::nullopt;
  TensorView permutation = *found;
  layer.erase(found);
  return permutation;
}

PermutedActivations::PermutedActivations(std::vector<TensorView> tensors, const TensorView& permutation)
    : tensors_(std::move(tensors)) {
  if (permutation.type != "I32" || permutation.shape.size() != 1)
    throw BadInput(
        fmt::format("tensor {} {} [{}]", permutation.name, permutation.type, fmt::join(permutation.shape, ", ")),
        "it is not the order of input features", "accepted: I32 [k]");
  for (TensorView& tensor : tensors_) {
    // Other types and shapes are left to the operator, which refuses them.
    if (tensor.name != "activations" || tensor.shape.size() != 2 || (tensor.type != "F16" && tensor.type != "BF16"))
      continue;
    if (tensor.shape[1] != permutation.shape[0])
      throw BadInput(
          fmt::format("activations of k = {}", tensor.shape[1]),
          fmt::format("the layer is sorted by group, and its permutation has {} input features", permutation.shape[0]),
          "give the activations of all of k, or convert the checkpoint with --fold-order");
    const auto src = numbers_of<std::uint16_t>(tensor);
    std::vector<std::uint16_t> dst(src.size());
    permute_columns(std::span<const std::uint16_t>(src), numbers_of<std::int32_t>(permutation), std::span(dst));
    storage_ = std::make_unique_for_overwrite<std::byte[]>(tensor.data.size());
    std::memcpy(storage_.get(), dst.data(), tensor.data.size());
    tensor.data = {storage_.get(), tensor.data.size()};
  }
}

}  // namespace cubit::tools
