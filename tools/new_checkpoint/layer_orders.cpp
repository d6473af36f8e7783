#include "tools/new_checkpoint/layer_orders.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cubit/w4_order.hpp>
#include <set>
#include <utility>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/layer.hpp"

namespace cubit::tools {
namespace {

/// The last part of a layer's name, and what precedes it.
std::pair<std::string, std::string> parts_of(const QuantisedLayer& layer) {
  const std::string name = layer.prefix.substr(0, layer.prefix.size() - (layer.prefix.empty() ? 0 : 1));
  const std::size_t begin = name.rfind('.') + 1;  // 0 if there is no dot
  return {name.substr(0, begin), name.substr(begin)};
}

[[noreturn]] void refuse_producer(const QuantisedLayer& layer, const std::string& producer, const std::string& rule) {
  throw BadInput(fmt::format("--fold-order: the input order of {} goes into {}", quote(layer.name()), quote(producer)),
                 rule, "name the layers that make these activations, feature by feature");
}

}  // namespace

OrderFold parse_fold(const std::string& text) {
  OrderFold fold;
  const std::size_t equals = text.find('=');
  fold.layer = text.substr(0, equals);
  for (std::size_t begin = equals; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin + 1), text.size());
    fold.producers.push_back(text.substr(begin + 1, end - begin - 1));
    begin = end;
  }
  const auto is_empty = [](const std::string& name) { return name.empty(); };
  if (!is_empty(fold.layer) && !fold.producers.empty() &&
      std::none_of(fold.producers.begin(), fold.producers.end(), is_empty))
    return fold;
  throw BadInput("--fold-order " + text, "does not name a layer and the layers before it",
                 "give LAYER=PRODUCER,..., such as down_proj=gate_proj,up_proj");
}

const OrderFold* LayerOrders::fold_of(const QuantisedLayer& layer) const {
  const std::string name = parts_of(layer).second;
  const auto found =
      std::find_if(folds_.begin(), folds_.end(), [&](const OrderFold& one) { return one.layer == name; });
  return found == folds_.end() ? nullptr : &*found;
}

void LayerOrders::sort(const QuantisedLayer& layer, std::span<const std::int32_t> g_idx) {
  inputs_[layer.prefix] = order_by_group(g_idx, layer.sizes);
}

void LayerOrders::fold(const CheckpointReader& checkpoint, const std::vector<QuantisedLayer>& layers) {
  require_unsorted(checkpoint);
  std::set<const OrderFold*> used;
  for (const QuantisedLayer& layer : layers) {
    const OrderFold* const fold = fold_of(layer);
    used.insert(fold);
    if (fold == nullptr || inputs_of(layer) == nullptr) continue;
    for (const std::string& producer : fold->producers)
      add_producer(layer, parts_of(layer).first + producer + ".", checkpoint, layers);
  }
  for (const OrderFold& fold : folds_)
    if (!used.contains(&fold))
      throw BadInput(fmt::format("--fold-order {}={}", fold.layer, fmt::join(fold.producers, ",")),
                     fmt::format("no quantised layer has the name {}", quote(fold.layer)),
                     "give the last part of a layer's name, such as down_proj");
}

/// Refuses a layer that has a permutation already.
void LayerOrders::require_unsorted(const CheckpointReader& checkpoint) const {
  std::set<std::string> names;
  for (const auto& [prefix, order] : inputs_) names.insert(prefix + kPermutation);
  for (const auto& file : checkpoint.files())
    for (const HeaderEntry& tensor : file->tensors())
      if (names.contains(tensor.name))
        refuse_tensor(tensor, "its layer is sorted already, but the layer's group index is not k / group size",
                      "give the tensors of one checkpoint");
}

void LayerOrders::add_producer(const QuantisedLayer& layer, const std::string& prefix,
                               const CheckpointReader& checkpoint, const std::vector<QuantisedLayer>& layers) {
  const std::string name = prefix.substr(0, prefix.size() - 1);
  const Order& order = inputs_.at(layer.prefix);
  if (!outputs_.emplace(prefix, order).second) refuse_producer(layer, name, "another layer's order goes there too");
  const auto quantised =
      std::find_if(layers.begin(), layers.end(), [&](const QuantisedLayer& one) { return one.prefix == prefix; });
  if (quantised != layers.end() && quantised->sizes.n != layer.sizes.k)
    refuse_producer(layer, name,
                    fmt::format("{} input features take {} output features", layer.sizes.k, quantised->sizes.n));
  bool exists = quantised != layers.end();
  for (const auto& file : checkpoint.files()) {
    for (const HeaderEntry& tensor : file->tensors()) {
      const bool is_dense = quantised == layers.end() && tensor.name == prefix + "weight";
      if (!is_dense && tensor.name != prefix + "bias") continue;
      add_tensor(layer, tensor, order);
      exists = exists || is_dense;
    }
  }
  if (!exists) refuse_producer(layer, name, "there is no such layer");
}

void LayerOrders::add_tensor(const QuantisedLayer& layer, const HeaderEntry& tensor, const Order& order) {
  const bool is_number = tensor.type == "F16" || tensor.type == "BF16" || tensor.type == "F32";
  if (!is_number || tensor.shape.empty() || tensor.shape[0] != layer.sizes.k)
    refuse_producer(layer, tensor.name,
                    fmt::format("the tensor is {} [{}], not F16, BF16 or F32 with {} rows", tensor.type,
                                fmt::join(tensor.shape, ", "), layer.sizes.k));
  tensors_.emplace(&tensor, order);
}

}  // namespace cubit::tools
