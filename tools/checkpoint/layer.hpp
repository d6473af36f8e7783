// One layer of a checkpoint, as people publish models: a safetensors file, or several and the index of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/safetensors/safetensors.hpp"

namespace cubit::tools {

inline constexpr std::string_view kLayerTensors[] = {"qweight", "qzeros", "scales", "g_idx", "bias"};

/// Every file that a checkpoint is made of, whether it is there or not: the index and all shards that it names, or the
/// one safetensors file. `path` as CheckpointLayer takes it. Throws BadInput.
std::vector<std::string> checkpoint_files(const std::string& path);

/// The tensors of one layer that a quantised linear layer has, by the last part of their names: "qweight" of
/// "model.layers.0.mlp.down_proj.qweight", or "qweight" of a layer without a name, as w4_quantize writes one. Of a
/// layer that is not quantised its weight alone, as "weights", which w4_quantize takes. Of the files nothing else is
/// read but their headers: what a framework keeps beside them, such as the scales of activations, is not the product's
/// business.
class CheckpointLayer {
 public:
  /// `path`: a safetensors file; the index (*.json) of several, which lie beside it; or a folder with one of either.
  /// `layer`: a name, or empty. Throws BadInput, also for a layer that has no tensors there.
  CheckpointLayer(const std::string& path, const std::string& layer);
  const std::vector<TensorView>& tensors() const { return tensors_; }
  bool is_quantised() const { return !is_dense_; }

 private:
  bool is_of_layer(const std::string& tensor) const;
  void read_shard(const std::string& path, const std::vector<std::string>& names);
  void add_tensors(const SafetensorsFile& file);

  std::string prefix_;
  bool is_dense_ = false;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorView> tensors_;  ///< views into the files
};

}  // namespace cubit::tools
