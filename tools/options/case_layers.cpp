#include "tools/options/case_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <cubit/cubit.hpp>
#include <nlohmann/json.hpp>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/permuted_activations.hpp"

namespace cubit::tools {
namespace {

constexpr std::size_t kMostLayers = 3;

/// The tensors of the layer that the operator has. Only an operator of whole linear layers has a bias; w4_quantize
/// takes the weights of a layer alone.
std::vector<TensorView> tensors_of(const CheckpointLayer& layer, const std::string& descriptor) {
  std::vector<TensorView> tensors = layer.tensors();
  if (layer.is_quantised()) return tensors;
  if (!has_field(descriptor, "bias"))
    std::erase_if(tensors, [](const TensorView& tensor) { return tensor.name == "bias"; });
  // An operator of packed weights refuses the weights before the bias.
  std::stable_partition(tensors.begin(), tensors.end(),
                        [](const TensorView& tensor) { return tensor.name == "weights"; });
  return tensors;
}

/// Refuses a format that would read the words of a packed layer in another way.
void require_format_of(const UnpackedLayer& layer, const std::string& descriptor) {
  const std::string field = fmt::format("format={}", layer.format());
  if (descriptor.find(field + ",") != std::string::npos || descriptor.ends_with(field)) return;
  throw BadInput(descriptor,
                 "compressed-tensors has packed this layer, " +
                     std::string(layer.format() == std::string("symmetric") ? "without zeros" : "with zeros"),
                 "ask for " + field);
}

bool are_equal(const TensorView* one, const TensorView* other) {
  if (one == nullptr || other == nullptr) return one == other;
  return one->type == other->type && std::ranges::equal(one->data, other->data);
}

/// Refuses layers of which not all have the same tensor `name`.
void require_shared(const std::deque<CaseLayer>& layers, std::string_view name, const char* meaning) {
  for (const CaseLayer& layer : layers) {
    if (are_equal(layers.front().find(name), layer.find(name))) continue;
    throw BadInput("--layer " + layer.name(),
                   fmt::format("its {} differs from that of {}, and layers of one launch share {}", name,
                               quote(layers.front().name()), meaning),
                   "run each layer by itself");
  }
}

}  // namespace

bool has_field(const std::string& descriptor, const char* field) {
  const std::string name = descriptor.substr(0, descriptor.find(':'));
  for (const auto& entry : nlohmann::json::parse(operators())) {
    if (entry.at("name") != name) continue;
    const auto& fields = entry.at("fields");
    return std::any_of(fields.begin(), fields.end(), [&](const auto& one) { return one.at("name") == field; });
  }
  return false;
}

std::string with_layers(const std::string& descriptor, std::size_t layers) {
  if (layers < 2) return descriptor;
  const std::string given = fmt::format("{} options --layer", layers);
  if (!has_field(descriptor, "layers"))
    throw BadInput(given, fmt::format("{} takes one layer", descriptor.substr(0, descriptor.find(':'))),
                   "give --layer once");
  if (layers > kMostLayers)
    throw BadInput(given, fmt::format("one launch takes at most {} layers", kMostLayers), "give fewer");
  const std::size_t fields = descriptor.find(':');
  const std::string field = fmt::format("layers={}", layers);
  if (fields == std::string::npos) return descriptor + ":" + field;
  const std::string all = "," + descriptor.substr(fields + 1) + ",";
  if (all.find(",layers=") == std::string::npos) return descriptor + "," + field;
  if (all.find("," + field + ",") != std::string::npos) return descriptor;
  throw BadInput(given, fmt::format("{} has another number of layers", descriptor),
                 fmt::format("ask for {}, or leave layers out", field));
}

CaseLayer::CaseLayer(const std::string& path, const std::string& name, const std::string& descriptor)
    : name_(name), layer_(path, name), tensors_(tensors_of(layer_, descriptor)) {
  if (is_packed_layer(tensors_)) {
    unpacked_.emplace(tensors_);
    require_format_of(*unpacked_, descriptor);
    tensors_ = unpacked_->tensors();
  }
  if (is_eight_bit_layer(tensors_)) {
    eight_bit_.emplace(tensors_, descriptor);
    tensors_ = eight_bit_->tensors();
  }
}

void CaseLayer::cut(const std::string& descriptor, std::int64_t activations, W4Rank rank) {
  slice_.emplace(tensors_, descriptor, activations, rank);
  tensors_ = slice_->tensors();
}

bool CaseLayer::has_bias() const {
  return std::any_of(layer_.tensors().begin(), layer_.tensors().end(),
                     [](const TensorView& tensor) { return tensor.name == "bias"; });
}

const TensorView* CaseLayer::find(std::string_view tensor) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorView& one) { return one.name == tensor; });
  return found == tensors_.end() ? nullptr : &*found;
}

CaseLayers::CaseLayers(const std::string& path, const std::vector<std::string>& names, const std::string& descriptor) {
  if (names.empty()) layers_.emplace_back(path, "", descriptor);
  for (const std::string& name : names) layers_.emplace_back(path, name, descriptor);
}

std::optional<TensorView> CaseLayers::take_permutation() {
  require_shared(layers_, kPermutation, "the order of input features");
  std::optional<TensorView> permutation;
  for (CaseLayer& layer : layers_) permutation = tools::take_permutation(layer.tensors());
  return permutation;
}

void CaseLayers::cut(const std::string& descriptor, std::int64_t activations, W4Rank rank) {
  for (CaseLayer& layer : layers_) layer.cut(descriptor, activations, rank);
}

std::vector<TensorView> CaseLayers::tensors() const {
  if (layers_.size() > 1) require_shared(layers_, "g_idx", "one activation order");
  std::vector<TensorView> all;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (TensorView tensor : layers_[i].tensors()) {
      if (i > 0 && tensor.name == "g_idx") continue;
      if (i > 0) tensor.name += fmt::format("_{}", i + 1);
      all.push_back(std::move(tensor));
    }
  }
  return all;
}

const CaseLayer* CaseLayers::layer_of_bias(std::string_view tensor) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (tensor == (i == 0 ? "bias" : fmt::format("bias_{}", i + 1)) && layers_[i].has_bias()) return &layers_[i];
  }
  return nullptr;
}

}  // namespace cubit::tools
