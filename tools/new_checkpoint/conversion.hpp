// Converts the quantised layers of a checkpoint from one layout to another. Only one tensor is in memory at a time.
//
// The layout `packed` of compressed-tensors has the words of gptq_v2, or of symmetric if a layer has no zeros, with
// rows and columns exchanged, and other names of tensors.
#pragma once

#include <cstddef>
#include <cubit/w4_evidence.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "files/output_file.hpp"
#include "tools/checkpoint/quantised_layers.hpp"
#include "tools/checkpoint/reader.hpp"
#include "tools/new_checkpoint/layer_orders.hpp"

namespace cubit::tools {

/// The layout of a checkpoint, or nothing for an unknown text.
std::optional<CheckpointLayout> parse_layout(const std::string& text);
std::string layout_names();  ///< "gptq, gptq_v2, awq, symmetric, packed"

/// How a checkpoint is converted.
struct ConversionRequest {
  CheckpointLayout from;
  CheckpointLayout to;
  std::optional<int> bits;  ///< of every weight, or nothing if each layer tells its own
  int threads = 1;
  /// Sort input features by group. A sorted layer has g_idx in order, and NAME.permutation, which says the activation
  /// that each input feature takes. A fold puts the permutation into the layers before instead.
  bool sorts_activation_order = false;
  std::vector<OrderFold> folds = {};
};

class Conversion {
 public:
  /// Checks all layers before anything is written. Throws BadInput.
  Conversion(const CheckpointReader& checkpoint, ConversionRequest request);
  std::size_t layers() const { return layers_.size(); }
  std::size_t others() const { return others_; }           ///< tensors that belong to no layer
  std::size_t sorted() const { return orders_.sorted(); }  ///< layers whose input features are sorted by group
  std::set<int> bits() const;                              ///< of the layers, each number once
  /// What contradicts the layout that the checkpoint is read in; empty if nothing does.
  std::string warning() const { return evidence_.warning(); }

  /// Writes the converted file `index` of the checkpoint.
  void write(std::size_t index, OutputFile& output) const;
  /// The index of the converted files, if the checkpoint has an index.
  std::string index_of(const std::vector<std::string>& names) const;

 private:
  /// How to make a tensor of the result.
  struct Item {
    enum class Kind { copied, reordered, qweight, qzeros, scales, shape, g_idx, permutation };
    Kind kind;
    HeaderEntry result;           ///< the offsets are set when all tensors of the file are known
    const HeaderEntry* source;    ///< null for what the source does not store
    const QuantisedLayer* layer;  ///< null for a tensor of no layer
  };

  W4Format target_of(const QuantisedLayer& layer) const;
  void check(const QuantisedLayer& layer);
  bool check_order(const QuantisedLayer& layer);
  void plan();
  static void set_offsets(std::vector<Item>& items);
  void plan_of_order(const HeaderEntry& g_idx, const QuantisedLayer& layer, std::vector<Item>& items) const;
  void plan_of_layer(const HeaderEntry& tensor, const QuantisedLayer& layer, std::vector<Item>& items) const;
  HeaderEntry renamed(const HeaderEntry& tensor, const QuantisedLayer& layer, const char* name,
                      const char* packed_name) const;
  void copy(const Item& item, OutputFile& output) const;
  void convert(const Item& item, OutputFile& output) const;
  void convert_words(const Item& item, OutputFile& output) const;
  void convert_scales(const Item& item, OutputFile& output) const;
  void reorder_rows(const Item& item, OutputFile& output) const;
  std::vector<std::uint32_t> reordered_words(const Item& item, std::vector<std::uint32_t> words) const;
  std::vector<std::uint32_t> stored_zeros(const QuantisedLayer& layer) const;

  const CheckpointReader& checkpoint_;
  CheckpointLayout from_;
  CheckpointLayout to_;
  int threads_;
  bool sorts_;
  std::vector<QuantisedLayer> layers_;
  W4Evidence evidence_;
  LayerOrders orders_;
  std::vector<std::vector<Item>> items_;  ///< for each file
  std::size_t others_ = 0;
};

}  // namespace cubit::tools
