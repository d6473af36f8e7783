#include "tools/checkpoint/quantised_layers.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

class LayerFinder {
 public:
  LayerFinder(const CheckpointReader& checkpoint, W4Format format, std::optional<int> bits)
      : format_(format), bits_(bits) {
    for (const auto& file : checkpoint.files())
      for (const HeaderEntry& tensor : file->tensors()) by_name_.emplace(tensor.name, &tensor);
  }

  std::vector<QuantisedLayer> layers_of(const SafetensorsReader& file) const {
    std::vector<QuantisedLayer> layers;
    for (const HeaderEntry& tensor : file.tensors()) {
      constexpr std::string_view kName = "qweight";
      const std::string_view name = tensor.name;
      if (name != kName && !name.ends_with(".qweight")) continue;
      layers.push_back(layer_of(tensor, std::string(name.substr(0, name.size() - kName.size()))));
    }
    return layers;
  }

 private:
  const HeaderEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  QuantisedLayer layer_of(const HeaderEntry& qweight, std::string prefix) const {
    QuantisedLayer layer;
    layer.prefix = std::move(prefix);
    layer.qweight = &qweight;
    layer.format = format_;
    layer.scales = find(layer.prefix + "scales");
    layer.qzeros = find(layer.prefix + "qzeros");
    layer.g_idx = find(layer.prefix + "g_idx");
    if (layer.scales == nullptr) {
      refuse_tensor(qweight, fmt::format("there is no {}", quote(layer.prefix + "scales")),
                    "a layer has the tensors NAME.qweight and NAME.scales");
    }
    if (layer.qzeros == nullptr && stores_zeros(format_)) {
      refuse_tensor(
          qweight,
          fmt::format("there is no {}, which the format {} requires", quote(layer.prefix + "qzeros"), text_of(format_)),
          fmt::format("add the tensor, or use --from symmetric if every zero is {}", 1 << (bits_.value_or(4) - 1)));
    }
    // Some packers store the zeros of symmetric weights all the same. Such a file has one of the gptq formats.
    if (layer.qzeros != nullptr && !stores_zeros(format_)) {
      refuse_tensor(*layer.qzeros, "--from symmetric stores no zeros",
                    bits_.value_or(4) == 4 ? "use --from gptq, gptq_v2 or awq, the format of the packer"
                                           : "use --from gptq or gptq_v2, the format of the packer");
    }
    layer.sizes = sizes_of(layer);
    return layer;
  }

  W4LayerSizes sizes_of(const QuantisedLayer& layer) const {
    const HeaderEntry& scales = *layer.scales;
    const HeaderEntry& qweight = *layer.qweight;
    if (scales.shape.size() != 2 || (scales.type != "F16" && scales.type != "BF16"))
      refuse_tensor(scales, "scales have 16 bits and two dimensions", "accepted: F16 or BF16 [groups, n]");
    if (qweight.shape.size() != 2 || qweight.type != "I32") {
      refuse_tensor(qweight, "words have 32 bits and two dimensions",
                    format_ == W4Format::awq ? "accepted: I32 [k, n / 8]"
                                             : fmt::format("accepted: I32 [k / {}, n]", 32 / bits_.value_or(4)));
    }
    // Extents of zero would let the other extents grow beyond the bytes of the file, and their products could overflow.
    for (const HeaderEntry* tensor : {&scales, &qweight})
      if (tensor->shape[0] == 0 || tensor->shape[1] == 0)
        refuse_tensor(*tensor, "it is empty", "accepted: extents of 1 and more");
    check_packing(layer);
    const int bits = bits_of(layer);
    const int in_word = 32 / bits;
    const bool by_n = format_ == W4Format::awq;
    const W4LayerSizes sizes{scales.shape[1], by_n ? qweight.shape[0] : qweight.shape[0] * in_word, scales.shape[0],
                             bits};
    if (sizes.n % 8 != 0 || sizes.k % 8 != 0)
      refuse_tensor(qweight, fmt::format("n = {} and k = {} must be multiples of 8", sizes.n, sizes.k),
                    fmt::format("name the format of the file with --from: {}", w4_format_names()));
    require_group_size(scales, sizes);
    require_shape(qweight, sizes.qweight_shape(format_), sizes);
    if (layer.qzeros != nullptr) {
      if (layer.qzeros->type != "I32")
        refuse_tensor(*layer.qzeros, "zeros have 32 bits", fmt::format("accepted: I32 [groups, n / {}]", in_word));
      require_shape(*layer.qzeros, {sizes.groups, sizes.n / in_word}, sizes);
    }
    return sizes;
  }

  /// Refuses words that are packed along the other dimension. Requires: qweight and scales have two dimensions.
  void check_packing(const QuantisedLayer& layer) const {
    const std::int64_t n = layer.scales->shape[1];
    const std::int64_t columns = layer.qweight->shape[1];
    if (format_ != W4Format::awq && n % 8 == 0 && columns == n / 8)
      refuse_tensor(*layer.qweight, fmt::format("with n = {} it looks like awq, not {}", n, text_of(format_)),
                    "use --from awq");
    if (format_ == W4Format::awq && columns == n)
      refuse_tensor(*layer.qweight, fmt::format("with n = {} it is packed along k, unlike awq", n),
                    "use --from gptq, gptq_v2 or symmetric, the format of the packer");
  }

  int bits_of(const QuantisedLayer& layer) const {
    int bits = bits_.value_or(4);
    const std::int64_t n = layer.scales->shape[1];
    const std::int64_t rows = layer.qweight->shape[0];
    const HeaderEntry* const zeros = layer.qzeros;
    const HeaderEntry* const order = layer.g_idx;
    for (const int one : {2, 3, 4, 8}) {
      const bool by_zeros =
          zeros != nullptr && zeros->shape.size() == 2 && zeros->shape[1] <= n && zeros->shape[1] * 32 == n * one;
      const bool by_order = zeros == nullptr && order != nullptr && order->shape.size() == 1 &&
                            order->shape[0] <= rows * 16 && rows * 32 == order->shape[0] * one;
      if (!by_zeros && !by_order) continue;
      if (one < 4)
        refuse_tensor(*layer.qweight, fmt::format("its layer has weights of {} bits", one), "accepted: 4 and 8 bits");
      if (!bits_) bits = one;
    }
    return bits;
  }

  void require_shape(const HeaderEntry& tensor, std::array<std::int64_t, 2> shape, const W4LayerSizes& sizes) const {
    if (tensor.shape == std::vector<std::int64_t>(shape.begin(), shape.end())) return;
    refuse_tensor(tensor,
                  fmt::format("{}-bit {} of n = {}, k = {} and {} groups has [{}, {}]", sizes.bits, text_of(format_),
                              sizes.n, sizes.k, sizes.groups, shape[0], shape[1]),
                  "accepted: layers in the format of --from, with weights of --bits bits");
  }

  W4Format format_;
  std::optional<int> bits_;  ///< of every layer
  std::unordered_map<std::string, const HeaderEntry*> by_name_;
};

}  // namespace

std::string w4_format_names() {
  std::string names;
  for (const W4Format format : kW4Formats) names += (names.empty() ? "" : ", ") + std::string(text_of(format));
  return names;
}

void refuse_tensor(const HeaderEntry& tensor, const std::string& rule, const std::string& remedy) {
  throw BadInput(fmt::format("tensor {} {} [{}]", quote(tensor.name), tensor.type, fmt::join(tensor.shape, ", ")), rule,
                 remedy);
}

void require_group_size(const HeaderEntry& scales, const W4LayerSizes& sizes) {
  if (sizes.group_size() > 0) return;
  refuse_tensor(
      scales, fmt::format("no group size gives k = {} as many groups as {}", sizes.k, sizes.groups),
      fmt::format("accepted: the groups of a group size that is a power of two, or a number that divides {}", sizes.k));
}

std::vector<QuantisedLayer> find_quantised_layers(const CheckpointReader& checkpoint, W4Format format,
                                                  std::optional<int> bits) {
  const LayerFinder finder(checkpoint, format, bits);
  std::vector<QuantisedLayer> layers;
  for (const auto& file : checkpoint.files()) {
    for (QuantisedLayer& layer : finder.layers_of(*file)) layers.push_back(std::move(layer));
  }
  if (!layers.empty()) return layers;
  throw BadInput(checkpoint.path(), "has no quantised layer", "a layer has the tensors NAME.qweight and NAME.scales");
}

}  // namespace cubit::tools
