// The layers of a checkpoint that a case takes: one layer, or several that one launch multiplies by the same
// activations.
#pragma once

#include <cstdint>
#include <cubit/w4_parallel.hpp>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tools/checkpoint/eight_bit_layer.hpp"
#include "tools/checkpoint/layer.hpp"
#include "tools/checkpoint/parallel_slice.hpp"
#include "tools/checkpoint/unpacked_layer.hpp"

namespace cubit::tools {

/// Whether the descriptor's operator has a field of this name.
bool has_field(const std::string& descriptor, const char* field);

/// The descriptor with the field `layers`, where --layer names several layers. Throws BadInput if the descriptor gives
/// another number of layers, or if its operator takes one layer.
std::string with_layers(const std::string& descriptor, std::size_t layers);

/// One layer, with the tensors that the operator takes.
class CaseLayer {
 public:
  /// `descriptor` is canonical. Throws BadInput.
  CaseLayer(const std::string& path, const std::string& name, const std::string& descriptor);
  /// Cuts the layer for a rank: see ParallelSlice.
  void cut(const std::string& descriptor, std::int64_t activations, W4Rank rank);

  const std::string& name() const { return name_; }
  bool has_bias() const;
  /// The tensor, or null.
  const TensorView* find(std::string_view tensor) const;
  std::vector<TensorView>& tensors() { return tensors_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  std::string name_;
  CheckpointLayer layer_;
  std::optional<UnpackedLayer> unpacked_;
  std::optional<EightBitLayer> eight_bit_;
  std::optional<ParallelSlice> slice_;
  std::vector<TensorView> tensors_;  ///< views into the members above
};

/// All layers of a case.
class CaseLayers {
 public:
  /// `names`: of the layers, in order; none: the layer without a name. Throws BadInput.
  CaseLayers(const std::string& path, const std::vector<std::string>& names, const std::string& descriptor);

  /// Takes the permutation of input features out of the layers, if they have one. Throws BadInput if not all layers
  /// have the same.
  std::optional<TensorView> take_permutation();
  void cut(const std::string& descriptor, std::int64_t activations, W4Rank rank);
  /// The tensors of all layers: those of the second layer have names such as qweight_2. The layers share g_idx. Throws
  /// BadInput if they do not have the same.
  std::vector<TensorView> tensors() const;
  /// The layer whose bias is the tensor "bias", "bias_2" or "bias_3" of the case; null if that layer has none.
  const CaseLayer* layer_of_bias(std::string_view tensor) const;

 private:
  std::deque<CaseLayer> layers_;
};

}  // namespace cubit::tools
