// The quantised layers of a checkpoint, whatever lies between them: which tensors are of one, and its sizes.
#pragma once

#include <cubit/w4_checkpoint.hpp>
#include <string>
#include <vector>

#include "tools/checkpoint/reader.hpp"

namespace cubit::tools {

inline constexpr W4Format kW4Formats[] = {W4Format::gptq, W4Format::gptq_v2, W4Format::awq, W4Format::symmetric};
std::string w4_format_names();  ///< "gptq, gptq_v2, awq, symmetric"

/// The tensors NAME.qweight, NAME.scales, …, which are the reader's.
struct QuantisedLayer {
  std::string prefix;  ///< of the names, with its dot
  const HeaderEntry* qweight = nullptr;
  const HeaderEntry* scales = nullptr;
  const HeaderEntry* qzeros = nullptr;  ///< null where the format has none
  const HeaderEntry* g_idx = nullptr;   ///< null where there is none; only its name has been looked at
  W4LayerSizes sizes;

  std::string name() const { return prefix.empty() ? "the layer" : prefix.substr(0, prefix.size() - 1); }
};

/// All of them, in the files' order. Their types and shapes are those of `format` with weights of `bits`: throws
/// BadInput for one that is not so, and where there is none at all.
std::vector<QuantisedLayer> find_quantised_layers(const CheckpointReader& checkpoint, W4Format format, int bits);

/// BadInput of a tensor by its name, type and shape.
[[noreturn]] void refuse_tensor(const HeaderEntry& tensor, const std::string& rule, const std::string& remedy);

}  // namespace cubit::tools
