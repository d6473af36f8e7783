// Reads one layer of a published checkpoint: from one safetensors file, or from several files with an index.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/safetensors/safetensors.hpp"

namespace cubit::tools {

/// The tensor of a sorted layer that names the activation of each input feature (<cubit/w4_order.hpp>).
inline constexpr const char* kPermutation = "permutation";

inline constexpr std::string_view kLayerTensors[] = {
    "qweight",           "qzeros",       "scales",       "g_idx",        "bias",      "weight_packed",
    "weight_zero_point", "weight_scale", "weight_g_idx", "weight_shape", kPermutation};

/// The tensors of a layer that compressed-tensors has quantised to 8 bits.
inline constexpr std::string_view kEightBitTensors[] = {"weight",      "weight_scale",     "weight_zero_point",
                                                        "input_scale", "input_zero_point", "bias"};

/// All files of a checkpoint, whether they exist or not: the index and all shards that the index names, or the only
/// safetensors file. `path` is the argument of CheckpointLayer. Throws BadInput.
std::vector<std::string> checkpoint_files(const std::string& path);

/// The tensors of one linear layer, named by the last part of their names. For a quantised layer: "qweight" of
/// "model.layers.0.mlp.down_proj.qweight", or "qweight" of a layer without a name, as w4_quantize writes one. A layer
/// that compressed-tensors has packed has weight_packed, weight_scale and others; see unpacked_layer.hpp. A layer
/// that is not quantised has its weight, under the name "weights" that w4_quantize takes, and its bias. A layer of
/// 8 bits has weights, weight_scale and others; see eight_bit_layer.hpp. From the files only the headers and these
/// tensors are read. Other tensors that a framework stores in the layer are ignored.
class CheckpointLayer {
 public:
  /// `path`: a safetensors file, the index (*.json) of several files in the same folder, or the folder. `layer`: a
  /// name, or empty. Throws BadInput, also if the layer has no tensors there.
  CheckpointLayer(const std::string& path, const std::string& layer);
  const std::vector<TensorView>& tensors() const { return tensors_; }
  bool is_quantised() const { return kind_ != Kind::dense; }

 private:
  enum class Kind { words, dense, eight_bit };
  bool is_of_layer(const std::string& tensor) const;
  void read_shard(const std::string& path, const std::vector<std::string>& names);
  void add_tensors(const SafetensorsFile& file);

  std::string prefix_;
  Kind kind_ = Kind::words;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorView> tensors_;  ///< views into the files
};

}  // namespace cubit::tools
