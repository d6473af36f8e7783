// Puts activations into the order of a layer whose input features are sorted by group.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "files/safetensors/safetensors.hpp"

namespace cubit::tools {

/// Takes the tensor `permutation` out of a layer, if the layer has one.
std::optional<TensorView> take_permutation(std::vector<TensorView>& layer);

/// Tensors of which `activations` are reordered; the object owns their bytes. Other tensors are views of the source.
class PermutedActivations {
 public:
  /// Throws BadInput if the permutation is none, or is not one of the activations' features.
  PermutedActivations(std::vector<TensorView> tensors, const TensorView& permutation);
  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  std::unique_ptr<std::byte[]> storage_;
  std::vector<TensorView> tensors_;
};

}  // namespace cubit::tools
