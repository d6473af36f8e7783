// Finds the quantised layers of a checkpoint: the tensors and the sizes of each layer.
#pragma once

#include <cubit/w4_checkpoint.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/checkpoint/reader.hpp"

namespace cubit::tools {

inline constexpr W4Format kW4Formats[] = {W4Format::gptq, W4Format::gptq_v2, W4Format::awq, W4Format::symmetric};
std::string w4_format_names();  ///< "gptq, gptq_v2, awq, symmetric"

/// The layout of a checkpoint's layers.
struct CheckpointLayout {
  W4Format format = W4Format::gptq;  ///< of the words; gptq_v2 for packed layers, whose rows and columns are exchanged
  bool is_packed = false;            ///< by compressed-tensors
  bool operator==(const CheckpointLayout&) const = default;
};

/// The tensors NAME.qweight, NAME.scales, … of a layer, or NAME.weight_packed, NAME.weight_scale, … of a packed layer.
/// The pointers lead into the CheckpointReader.
struct QuantisedLayer {
  std::string prefix;  ///< NAME with its dot
  const HeaderEntry* qweight = nullptr;
  const HeaderEntry* scales = nullptr;
  const HeaderEntry* qzeros = nullptr;  ///< null if the format has no zeros
  const HeaderEntry* g_idx =
      nullptr;  ///< null if the layer has no group index; only the name of this tensor has been checked
  const HeaderEntry* shape = nullptr;  ///< weight_shape of a packed layer
  W4Format format = W4Format::gptq;    ///< of the words; of a packed layer gptq_v2, or symmetric if it has no zeros
  W4LayerSizes sizes;

  std::string name() const { return prefix.empty() ? "the layer" : prefix.substr(0, prefix.size() - 1); }
};

/// All quantised layers, in the order of the files. `bits` are those of every weight. Without a value each layer's own
/// zeros or group index tell its bits, and a layer that has neither has 4. Throws BadInput if the types and shapes of a
/// layer are not those of `format`, and if no layer exists.
std::vector<QuantisedLayer> find_quantised_layers(const CheckpointReader& checkpoint, W4Format format,
                                                  std::optional<int> bits);

/// The same for layers that compressed-tensors has packed, each of which tells its bits.
std::vector<QuantisedLayer> find_packed_layers(const CheckpointReader& checkpoint, std::optional<int> bits);

/// Throws a BadInput that gives the tensor's name, type and shape.
[[noreturn]] void refuse_tensor(const HeaderEntry& tensor, const std::string& rule, const std::string& remedy);

/// Throws a BadInput about the scales if no group size gives the layer its number of groups.
void require_group_size(const HeaderEntry& scales, const W4LayerSizes& sizes);

}  // namespace cubit::tools
