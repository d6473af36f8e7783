// Finds the layers that compressed-tensors has packed (`pack-quantized`): weight_packed [n, k · bits / 32],
// weight_scale [n, groups], weight_zero_point [n · bits / 32, groups] if the zeros are not the middle, weight_g_idx
// [k], weight_shape.
#include <fmt/format.h>

#include <array>
#include <span>
#include <unordered_map>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/quantised_layers.hpp"

namespace cubit::tools {
namespace {

constexpr std::string_view kWeights = "weight_packed";
using Shape = std::vector<std::int64_t>;

class PackedFinder {
 public:
  PackedFinder(const CheckpointReader& checkpoint, std::optional<int> bits) : checkpoint_(checkpoint), bits_(bits) {
    for (const auto& file : checkpoint.files())
      for (const HeaderEntry& tensor : file->tensors()) by_name_.emplace(tensor.name, &tensor);
  }

  QuantisedLayer layer_of(const HeaderEntry& words) const {
    QuantisedLayer layer;
    layer.prefix = words.name.substr(0, words.name.size() - kWeights.size());
    layer.qweight = &words;
    layer.scales = required(layer, "weight_scale");
    layer.shape = required(layer, "weight_shape");
    layer.qzeros = find(layer.prefix + "weight_zero_point");
    layer.g_idx = find(layer.prefix + "weight_g_idx");
    layer.format = layer.qzeros == nullptr ? W4Format::symmetric : W4Format::gptq_v2;
    layer.sizes = sizes_of(layer);
    return layer;
  }

 private:
  const HeaderEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  const HeaderEntry* required(const QuantisedLayer& layer, const char* part) const {
    if (const HeaderEntry* const tensor = find(layer.prefix + part)) return tensor;
    refuse_tensor(*layer.qweight, fmt::format("there is no {}", quote(layer.prefix + part)),
                  "a packed layer has NAME.weight_packed, NAME.weight_scale and NAME.weight_shape");
  }

  /// [n, k] as weight_shape says.
  std::array<std::int64_t, 2> stated_shape(const HeaderEntry& shape) const {
    if (shape.type != "I64" || shape.shape != Shape{2})
      refuse_tensor(shape, "it is not the shape of a weight", "accepted: I64 [2]");
    std::array<std::int64_t, 2> sizes{};
    checkpoint_.read(shape, 0, std::as_writable_bytes(std::span(sizes)));
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    for (const std::int64_t size : sizes)
      if (size <= 0 || size > kMost || size % 8 != 0)
        refuse_tensor(shape, fmt::format("the weight has [{}, {}]", sizes[0], sizes[1]),
                      "accepted: multiples of 8 up to 2^30");
    return sizes;
  }

  W4LayerSizes sizes_of(const QuantisedLayer& layer) const {
    const auto [n, k] = stated_shape(*layer.shape);
    const HeaderEntry& words = *layer.qweight;
    const HeaderEntry& scales = *layer.scales;
    if (scales.shape.size() != 2 || scales.shape[0] != n || (scales.type != "F16" && scales.type != "BF16"))
      refuse_tensor(scales, fmt::format("scales of n = {} have 16 bits and [n, groups]", n),
                    fmt::format("accepted: F16 or BF16 [{}, groups]", n));
    const std::int64_t groups = scales.shape[1];
    require_group_size(scales, {n, k, groups});
    for (const int bits : {4, 8, 2, 3}) {  // 16 weights of 3 bits have as many words as 16 of 4
      if (words.type != "I32" || words.shape != Shape{n, (k * bits + 31) / 32}) continue;
      if (bits < 4) refuse_tensor(words, fmt::format("it has weights of {} bits", bits), "accepted: 4 and 8 bits");
      if (bits_ && *bits_ != bits)
        refuse_tensor(words, fmt::format("it has weights of {} bits, not --bits {}", bits, *bits_),
                      "leave --bits out: each layer tells its own");
      if (layer.qzeros != nullptr &&
          (layer.qzeros->type != "I32" || layer.qzeros->shape != Shape{n * bits / 32, groups}))
        refuse_tensor(
            *layer.qzeros,
            fmt::format("{}-bit zeros of n = {} and {} groups have [{}, {}]", bits, n, groups, n * bits / 32, groups),
            "accepted: I32 words along n");
      return {n, k, groups, bits};
    }
    refuse_tensor(
        words,
        fmt::format("weights of [{}, {}] have [{}, {}] words of 4 bits, or [{}, {}] of 8", n, k, n, k / 8, n, k / 4),
        "accepted: I32 words along k");
  }

  const CheckpointReader& checkpoint_;
  std::optional<int> bits_;
  std::unordered_map<std::string, const HeaderEntry*> by_name_;
};

}  // namespace

std::vector<QuantisedLayer> find_packed_layers(const CheckpointReader& checkpoint, std::optional<int> bits) {
  const PackedFinder finder(checkpoint, bits);
  std::vector<QuantisedLayer> layers;
  for (const auto& file : checkpoint.files())
    for (const HeaderEntry& tensor : file->tensors())
      if (tensor.name == kWeights || tensor.name.ends_with("." + std::string(kWeights)))
        layers.push_back(finder.layer_of(tensor));
  if (!layers.empty()) return layers;
  throw BadInput(checkpoint.path(), "has no packed layer",
                 "a layer has the tensors NAME.weight_packed, NAME.weight_scale and NAME.weight_shape");
}

}  // namespace cubit::tools
