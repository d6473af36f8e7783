// Compares what a checkpoint states about its own layout with the layout that the caller reads the checkpoint in. Files
// do not always name their format, and the statements of a file may be wrong. A contradiction is therefore only a
// warning: nothing here changes how the weights are read.
//
//   W4Evidence evidence({{"config.json", "gptq_v2"}});               // what the files beside the weights state
//   evidence.add("model.layers.0.mlp.down_proj", {W4Format::gptq, 4, 4096, 32, false}, qzeros);
//   if (!evidence.warning().empty()) log(evidence.warning());
#pragma once

#include <cubit/w4_checkpoint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cubit {

/// The statements of one file beside the weights: quantize_config.json, or quantization_config of config.json. The
/// members have the names of the file's JSON members. A member without a value: the file does not state the value, or
/// does not state it for every layer.
struct W4Config {
  std::string file;  ///< the file's name, for the warning
  std::optional<std::string> checkpoint_format = {};
  std::optional<std::int64_t> bits = {};
  std::optional<std::int64_t> group_size = {};  ///< -1: one group of all input features
  std::optional<bool> sym = {};
  std::optional<bool> desc_act = {};
  bool static_groups = false;  ///< with desc_act too, groups follow the order of k, so g_idx is not needed
};

/// How a layer is read.
struct W4Reading {
  W4Format format = W4Format::gptq;
  int bits = 4;
  std::int64_t k = 0;
  std::int64_t groups = 1;
  /// Whether groups are read from g_idx. Without a value, W4Evidence does not compare desc_act with the reading.
  std::optional<bool> activation_order = {};
  /// Whether compressed-tensors has packed the layer. No other format can read such a layer.
  bool is_packed = false;
};

/// The value that all stored zeros of `bits` bits have in common, or nothing if they differ or if there is none.
inline std::optional<int> common_stored_zero(int bits, std::span<const std::uint32_t> qzeros) {
  if (qzeros.empty()) return std::nullopt;
  const std::uint32_t zero = qzeros.front() & ((1u << bits) - 1);
  std::uint32_t word = 0;
  for (int place = 0; place < 32; place += bits) word |= zero << place;
  const bool all = std::all_of(qzeros.begin(), qzeros.end(), [&](std::uint32_t one) { return one == word; });
  return all ? std::optional(static_cast<int>(zero)) : std::nullopt;
}

/// Collects the contradictions of a checkpoint's layers.
class W4Evidence {
 public:
  explicit W4Evidence(std::vector<W4Config> configs) : configs_(std::move(configs)) {}

  /// Adds a layer. `layer` is the layer's name, for the warning, and may be empty. `qzeros` are the layer's stored
  /// zeros, and empty for a format that stores none.
  void add(const std::string& layer, const W4Reading& reading, std::span<const std::uint32_t> qzeros) {
    ++layers_;
    if (layers_ == 1) reading_ = reading;
    const std::optional<int> zero = common_stored_zero(reading.bits, qzeros);
    add_zeros(layer, reading, zero);
    for (const W4Config& config : configs_) {
      add_format(layer, reading, config);
      add_sizes(layer, reading, config);
      add_symmetry(layer, reading, config, zero, !qzeros.empty());
      add_order(layer, reading, config);
    }
  }

  /// One sentence with all contradictions, or an empty text if there is none.
  std::string warning() const {
    if (clauses_.empty()) return {};
    std::string text = "the weights are read as ";
    text += reading_.is_packed ? "packed" : text_of(reading_.format);
    text += ", but ";
    for (std::size_t i = 0; i < clauses_.size(); ++i) text += (i == 0 ? "" : "; ") + text_of_clause(clauses_[i]);
    return text + "; if that is right, " +
           (other_.empty() ? "ask for what the checkpoint has" : "read them as " + other_);
  }

 private:
  struct Clause {
    std::string text;
    std::string layer;  ///< the first layer that the contradiction concerns
    int layers = 1;
  };

  void say(const std::string& layer, const std::string& text) {
    const auto found = std::find_if(clauses_.begin(), clauses_.end(), [&](const Clause& c) { return c.text == text; });
    if (found == clauses_.end())
      clauses_.push_back({text, layer});
    else
      ++found->layers;
  }
  /// If a contradiction does not concern all layers, the text has the number of its layers and the name of the first.
  std::string text_of_clause(const Clause& clause) const {
    if (clause.layers == layers_) return clause.text;
    return clause.text + " (" + std::to_string(clause.layers) + " of " + std::to_string(layers_) + " layers, first " +
           clause.layer + ")";
  }

  /// Compares the layer's zeros with those of a symmetrically quantised file. Every stored zero of such a file is the
  /// middle code in gptq_v2, and the middle code less one in gptq. If every zero is the number of the other version,
  /// the file is probably of the other version.
  void add_zeros(const std::string& layer, const W4Reading& reading, std::optional<int> zero) {
    const int middle = 1 << (reading.bits - 1);
    if (reading.is_packed) return;
    const bool is_gptq = reading.format == W4Format::gptq;
    if (!zero || (!is_gptq && reading.format != W4Format::gptq_v2) || *zero != (is_gptq ? middle : middle - 1)) return;
    other_ = is_gptq ? "gptq_v2" : "gptq";
    say(layer, "every stored zero is " + std::to_string(*zero) + ", as in a symmetric file of " +
                   (is_gptq ? "gptq_v2" : "gptq"));
  }
  void add_format(const std::string& layer, const W4Reading& reading, const W4Config& config) {
    const std::string stated = config.checkpoint_format.value_or("");
    if (stated != "gptq" && stated != "gptq_v2") return;
    const bool has_no_zeros = reading.format == W4Format::symmetric;  // the two versions do not differ then
    if (reading.is_packed || has_no_zeros || stated == text_of(reading.format)) return;
    other_ = stated;
    say(layer, config.file + " says checkpoint_format=" + stated);
  }
  void add_sizes(const std::string& layer, const W4Reading& reading, const W4Config& config) {
    if (config.bits && *config.bits != reading.bits)
      say(layer,
          config.file + " says bits=" + std::to_string(*config.bits) + " and not " + std::to_string(reading.bits));
    // With activation order, a row-parallel slice has a part of k and the groups of the whole layer.
    if (!config.group_size || reading.groups < 1 || reading.activation_order.value_or(false)) return;
    const std::int64_t size = *config.group_size == -1 ? reading.k : *config.group_size;
    if (size > 0 && (reading.k + size - 1) / size == reading.groups) return;
    say(layer, config.file + " says group_size=" + std::to_string(*config.group_size) +
                   ", and k = " + std::to_string(reading.k) + " has " + std::to_string(reading.groups) +
                   (reading.groups == 1 ? " group" : " groups"));
  }
  void add_symmetry(const std::string& layer, const W4Reading& reading, const W4Config& config, std::optional<int> zero,
                    bool has_zeros) {
    if (!config.sym) return;
    const int middle = 1 << (reading.bits - 1);
    const int less = reading.format == W4Format::gptq ? 1 : 0;
    if (*config.sym && has_zeros && (!zero || *zero + less != middle)) {
      say(layer, config.file + " says sym=true, and " +
                     (zero ? "every zero is read as " + std::to_string(*zero + less) : "the zeros differ"));
    }
    if (!*config.sym && reading.format == W4Format::symmetric) say(layer, config.file + " says sym=false");
  }
  void add_order(const std::string& layer, const W4Reading& reading, const W4Config& config) {
    if (!config.desc_act || !reading.activation_order || reading.groups == 1) return;
    if (*config.desc_act == *reading.activation_order || (*config.desc_act && config.static_groups)) return;
    say(layer, config.file + (*config.desc_act ? " says desc_act=true, and activation_order is false"
                                               : " says desc_act=false, and activation_order is true"));
  }

  std::vector<W4Config> configs_;
  std::vector<Clause> clauses_;
  W4Reading reading_;
  std::string other_;  ///< the format that the last contradiction about formats points to
  int layers_ = 0;
};

}  // namespace cubit
