// Plans how a conversion sorts layers with activation order, and where their permutations go.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/checkpoint/quantised_layers.hpp"
#include "tools/checkpoint/reader.hpp"

namespace cubit::tools {

/// The name of a layer, such as down_proj, and the names of the layers of the same module that make its activations.
struct OrderFold {
  std::string layer;
  std::vector<std::string> producers;
};

/// Parses LAYER=PRODUCER,… of --fold-order. Throws BadInput.
OrderFold parse_fold(const std::string& text);

class LayerOrders {
 public:
  using Order = std::vector<std::int32_t>;
  explicit LayerOrders(std::vector<OrderFold> folds) : folds_(std::move(folds)) {}

  /// Sorts the input features of a layer. Throws Error or BadInput.
  void sort(const QuantisedLayer& layer, std::span<const std::int32_t> g_idx);
  /// Gives the producers of all sorted layers their orders. `layers`: all of the checkpoint. Throws BadInput.
  void fold(const CheckpointReader& checkpoint, const std::vector<QuantisedLayer>& layers);

  /// The order of a layer's input or output features, or null if the layer keeps it.
  const Order* inputs_of(const QuantisedLayer& layer) const { return find(inputs_, layer.prefix); }
  const Order* outputs_of(const QuantisedLayer& layer) const { return find(outputs_, layer.prefix); }
  /// The order of the output features that a tensor outside of the quantised words has along its first dimension.
  const Order* outputs_of(const HeaderEntry& tensor) const { return find(tensors_, &tensor); }
  /// Whether the activations of a sorted layer come in its order.
  bool is_folded(const QuantisedLayer& layer) const { return fold_of(layer) != nullptr; }
  std::size_t sorted() const { return inputs_.size(); }

 private:
  template <class Map, class Key>
  static const Order* find(const Map& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  }
  const OrderFold* fold_of(const QuantisedLayer& layer) const;
  void require_unsorted(const CheckpointReader& checkpoint) const;
  void add_producer(const QuantisedLayer& layer, const std::string& prefix, const CheckpointReader& checkpoint,
                    const std::vector<QuantisedLayer>& layers);
  void add_tensor(const QuantisedLayer& layer, const HeaderEntry& tensor, const Order& order);

  std::vector<OrderFold> folds_;
  std::map<std::string, Order> inputs_;   ///< by the layer's prefix
  std::map<std::string, Order> outputs_;  ///< by the producer's prefix
  std::unordered_map<const HeaderEntry*, Order> tensors_;
};

}  // namespace cubit::tools
