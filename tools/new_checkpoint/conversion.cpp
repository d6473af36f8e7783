#include "tools/new_checkpoint/conversion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cubit/w4_order.hpp>
#include <map>
#include <unordered_map>
#include <utility>

#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/config.hpp"
#include "tools/checkpoint/layer.hpp"

namespace cubit::tools {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;  ///< tensors are copied in chunks of this size
constexpr const char* kPacked = "packed";

template <class Number>
std::vector<Number> read_numbers(const CheckpointReader& checkpoint, const HeaderEntry* tensor) {
  if (tensor == nullptr) return {};
  require_memory(3 * bytes_of(*tensor), checkpoint.path());  // the tensor, its conversion and a transposed copy
  std::vector<Number> numbers(bytes_of(*tensor) / sizeof(Number));
  checkpoint.read(*tensor, 0, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

/// The transposed matrix of `rows` rows.
template <class Number>
std::vector<Number> transposed(const std::vector<Number>& matrix, std::int64_t rows) {
  std::vector<Number> result(matrix.size());
  transpose_w4(std::span<const Number>(matrix), rows, std::span(result));
  return result;
}

/// Adds the layer's name to an error about its words.
template <class Work>
void named(const QuantisedLayer& layer, Work work) {
  try {
    work();
  } catch (const Error& error) {
    throw BadInput(fmt::format("{}, {}", quote(layer.name()), error.given()), error.why(), error.remedy());
  }
}

}  // namespace

std::optional<CheckpointLayout> parse_layout(const std::string& text) {
  if (text == kPacked) return CheckpointLayout{W4Format::gptq_v2, true};
  for (const W4Format format : kW4Formats)
    if (text == text_of(format)) return CheckpointLayout{format, false};
  return std::nullopt;
}

std::string layout_names() { return w4_format_names() + ", " + kPacked; }

Conversion::Conversion(const CheckpointReader& checkpoint, ConversionRequest request)
    : checkpoint_(checkpoint),
      from_(request.from),
      to_(request.to),
      threads_(request.threads),
      sorts_(request.sorts_activation_order),
      layers_(request.from.is_packed ? find_packed_layers(checkpoint, request.bits)
                                     : find_quantised_layers(checkpoint, request.from.format, request.bits)),
      evidence_(read_quantisation_configs(checkpoint.path())),
      orders_(std::move(request.folds)) {
  for (const QuantisedLayer& layer : layers_) check(layer);
  orders_.fold(checkpoint, layers_);
  plan();
}

std::set<int> Conversion::bits() const {
  std::set<int> bits;
  for (const QuantisedLayer& layer : layers_) bits.insert(layer.sizes.bits);
  return bits;
}

void Conversion::write(std::size_t index, OutputFile& output) const {
  std::vector<HeaderEntry> entries;
  for (const Item& item : items_[index]) entries.push_back(item.result);
  const std::string header = format_header(entries, checkpoint_.files()[index]->metadata());
  output.append(std::as_bytes(std::span(header)));
  for (const Item& item : items_[index]) convert(item, output);
  output.finish();
}

std::string Conversion::index_of(const std::vector<std::string>& names) const {
  std::map<std::string, std::string> files;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    for (const Item& item : items_[i]) files.emplace(item.result.name, names[i]);
    if (!items_[i].empty()) bytes += items_[i].back().result.offsets[1];
  }
  return checkpoint_.index_of(files, bytes);
}

/// The format of the words that the result has. A packed layer without zeros is symmetric.
W4Format Conversion::target_of(const QuantisedLayer& layer) const {
  return to_.is_packed && layer.format == W4Format::symmetric ? W4Format::symmetric : to_.format;
}

/// The layer's zeros with a row for each group.
std::vector<std::uint32_t> Conversion::stored_zeros(const QuantisedLayer& layer) const {
  const auto words = read_numbers<std::uint32_t>(checkpoint_, layer.qzeros);
  return from_.is_packed && !words.empty() ? transposed(words, layer.qzeros->shape[0]) : words;
}

/// Refuses a layer that the other layout cannot store, before anything is written. Only the small tensors are read.
void Conversion::check(const QuantisedLayer& layer) {
  const W4LayerSizes& sizes = layer.sizes;
  const W4Format target = target_of(layer);
  if (sizes.bits == 8 && (layer.format == W4Format::awq || target == W4Format::awq))
    refuse_tensor(*layer.qweight, "awq has weights of 4 bits, and this layer has 8",
                  "accepted for such layers: gptq, gptq_v2, symmetric, packed");
  W4Reading reading = {layer.format, sizes.bits, sizes.k, sizes.groups, {}, from_.is_packed};
  if (layer.g_idx != nullptr && !check_order(layer)) reading.activation_order = true;
  const std::vector<std::uint32_t> stored = stored_zeros(layer);
  evidence_.add(layer.name(), reading, stored);
  std::vector<std::uint32_t> zeros(stores_zeros(target) ? sizes.qzeros_words() : 0);
  named(layer, [&] { convert_qzeros(layer.format, target, sizes, stored, zeros, threads_); });
}

/// Whether the groups are in the order of k.
bool Conversion::check_order(const QuantisedLayer& layer) {
  const HeaderEntry& g_idx = *layer.g_idx;
  if (layer.format == W4Format::awq)
    refuse_tensor(g_idx, "awq has no activation order", "use --from gptq or gptq_v2, the format of the packer");
  if (g_idx.type != "I32" || g_idx.shape != std::vector<std::int64_t>{layer.sizes.k})
    refuse_tensor(g_idx, "a group index has a number for each k",
                  fmt::format("accepted: I32 [{}], of {} bits", layer.sizes.k, layer.sizes.bits));
  const auto groups = read_numbers<std::int32_t>(checkpoint_, &g_idx);
  const auto is_none = [&](std::int32_t group) { return group < 0 || group >= layer.sizes.groups; };
  const auto none = std::find_if(groups.begin(), groups.end(), is_none);
  if (none != groups.end()) {
    refuse_tensor(
        g_idx, fmt::format("g_idx[{}] = {}, but there are {} groups", none - groups.begin(), *none, layer.sizes.groups),
        fmt::format("accepted: 0 to {}", layer.sizes.groups - 1));
  }
  const bool is_ordered = is_in_order(groups, layer.sizes);
  if (sorts_ && !is_ordered) {
    named(layer, [&] { orders_.sort(layer, groups); });
  } else if (to_.format == W4Format::awq && !is_ordered) {
    refuse_tensor(g_idx, "awq has no activation order, but this index is not k / group size",
                  "accepted for such layers: gptq, gptq_v2, symmetric; or --sort-activation-order");
  }
  return is_ordered;
}

/// Plans the result. Tensors keep their order; zeros that the source does not store follow their weights.
void Conversion::plan() {
  std::unordered_map<const HeaderEntry*, const QuantisedLayer*> owners;
  for (const QuantisedLayer& layer : layers_)
    for (const HeaderEntry* tensor : {layer.qweight, layer.scales, layer.qzeros, layer.g_idx, layer.shape})
      if (tensor != nullptr) owners.emplace(tensor, &layer);
  for (const auto& file : checkpoint_.files()) {
    std::vector<Item>& items = items_.emplace_back();
    for (const HeaderEntry& tensor : file->tensors()) {
      const auto owner = owners.find(&tensor);
      if (owner == owners.end()) {
        ++others_;
        const bool is_reordered = orders_.outputs_of(tensor) != nullptr;
        items.push_back({is_reordered ? Item::Kind::reordered : Item::Kind::copied, tensor, &tensor, nullptr});
      } else {
        plan_of_layer(tensor, *owner->second, items);
      }
    }
    set_offsets(items);
  }
}

void Conversion::set_offsets(std::vector<Item>& items) {
  std::uint64_t offset = 0;
  for (Item& item : items) {
    const bool is_of_source =
        item.kind == Item::Kind::copied || item.kind == Item::Kind::reordered || item.kind == Item::Kind::scales;
    std::uint64_t bytes = is_of_source                     ? bytes_of(*item.source)
                          : item.kind == Item::Kind::shape ? sizeof(std::int64_t)
                                                           : sizeof(std::uint32_t);
    if (!is_of_source)
      for (const std::int64_t extent : item.result.shape) bytes *= static_cast<std::uint64_t>(extent);
    item.result.offsets = {offset, offset + bytes};
    offset += bytes;
  }
}

/// The tensor under the name that the result has.
HeaderEntry Conversion::renamed(const HeaderEntry& tensor, const QuantisedLayer& layer, const char* name,
                                const char* packed_name) const {
  HeaderEntry result = tensor;
  result.name = layer.prefix + (to_.is_packed ? packed_name : name);
  return result;
}

/// The groups of a sorted layer are in order; its permutation follows, unless the layers before have taken it.
void Conversion::plan_of_order(const HeaderEntry& g_idx, const QuantisedLayer& layer, std::vector<Item>& items) const {
  const bool is_sorted = orders_.inputs_of(layer) != nullptr;
  if (target_of(layer) != W4Format::awq)
    items.push_back({is_sorted ? Item::Kind::g_idx : Item::Kind::copied, renamed(g_idx, layer, "g_idx", "weight_g_idx"),
                     &g_idx, &layer});
  if (is_sorted && !orders_.is_folded(layer))
    items.push_back(
        {Item::Kind::permutation, {layer.prefix + kPermutation, "I32", {layer.sizes.k}, {}}, nullptr, &layer});
}

void Conversion::plan_of_layer(const HeaderEntry& tensor, const QuantisedLayer& layer, std::vector<Item>& items) const {
  const W4LayerSizes& sizes = layer.sizes;
  const W4Format target = target_of(layer);
  if (&tensor == layer.shape) return;
  if (&tensor == layer.g_idx) return plan_of_order(tensor, layer, items);
  if (&tensor == layer.scales) {
    HeaderEntry scales = renamed(tensor, layer, "scales", "weight_scale");
    if (to_.is_packed != from_.is_packed) std::swap(scales.shape[0], scales.shape[1]);
    items.push_back({Item::Kind::scales, scales, &tensor, &layer});
    return;
  }
  HeaderEntry zeros =
      renamed({"", "I32", {sizes.groups, sizes.n / sizes.in_word()}, {}}, layer, "qzeros", "weight_zero_point");
  if (to_.is_packed) std::swap(zeros.shape[0], zeros.shape[1]);
  if (&tensor == layer.qzeros) {
    if (stores_zeros(target)) items.push_back({Item::Kind::qzeros, zeros, &tensor, &layer});
    return;
  }
  const auto shape = sizes.qweight_shape(target);
  HeaderEntry words = renamed({"", "I32", {shape[0], shape[1]}, {}}, layer, "qweight", "weight_packed");
  if (to_.is_packed) std::swap(words.shape[0], words.shape[1]);
  items.push_back({Item::Kind::qweight, words, &tensor, &layer});
  if (layer.qzeros == nullptr && stores_zeros(target)) items.push_back({Item::Kind::qzeros, zeros, nullptr, &layer});
  if (to_.is_packed)
    items.push_back({Item::Kind::shape, {layer.prefix + "weight_shape", "I64", {2}, {}}, nullptr, &layer});
}

void Conversion::copy(const Item& item, OutputFile& output) const {
  std::vector<std::byte> chunk;
  for (std::uint64_t begin = 0, bytes = bytes_of(*item.source); begin < bytes; begin += chunk.size()) {
    chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, bytes - begin)));
    checkpoint_.read(*item.source, begin, chunk);
    output.append(chunk);
  }
}

void Conversion::convert(const Item& item, OutputFile& output) const {
  switch (item.kind) {
    case Item::Kind::copied:
      return copy(item, output);
    case Item::Kind::reordered:
      return reorder_rows(item, output);
    case Item::Kind::scales:
      return convert_scales(item, output);
    case Item::Kind::qweight:
    case Item::Kind::qzeros:
      return convert_words(item, output);
    case Item::Kind::shape: {
      const std::array<std::int64_t, 2> shape = {item.layer->sizes.n, item.layer->sizes.k};
      return output.append(std::as_bytes(std::span(shape)));
    }
    case Item::Kind::permutation:
      return output.append(std::as_bytes(std::span(*orders_.inputs_of(*item.layer))));
    case Item::Kind::g_idx: {
      auto groups = read_numbers<std::int32_t>(checkpoint_, item.source);
      std::sort(groups.begin(), groups.end());
      return output.append(std::as_bytes(std::span(groups)));
    }
  }
}

void Conversion::convert_scales(const Item& item, OutputFile& output) const {
  auto scales = read_numbers<std::uint16_t>(checkpoint_, item.source);
  if (const LayerOrders::Order* const order = orders_.outputs_of(*item.layer)) {
    const std::vector<std::uint16_t> src = std::exchange(scales, std::vector<std::uint16_t>(scales.size()));
    const auto permute = from_.is_packed ? permute_rows<std::uint16_t> : permute_columns<std::uint16_t>;
    permute(src, *order, scales);
  }
  if (to_.is_packed != from_.is_packed) scales = transposed(scales, item.source->shape[0]);
  output.append(std::as_bytes(std::span(scales)));
}

void Conversion::convert_words(const Item& item, OutputFile& output) const {
  const QuantisedLayer& layer = *item.layer;
  auto src = read_numbers<std::uint32_t>(checkpoint_, item.source);
  if (from_.is_packed && item.source != nullptr) src = transposed(src, item.source->shape[0]);
  src = reordered_words(item, std::move(src));
  std::vector<std::uint32_t> dst(bytes_of(item.result) / sizeof(std::uint32_t));
  const auto work = item.kind == Item::Kind::qweight ? convert_qweight : convert_qzeros;
  named(layer, [&] { work(layer.format, target_of(layer), layer.sizes, src, dst, threads_); });
  if (to_.is_packed) dst = transposed(dst, item.result.shape[1]);
  output.append(std::as_bytes(std::span(dst)));
}

/// The source's weights or zeros, with input and output features in the order of the result.
std::vector<std::uint32_t> Conversion::reordered_words(const Item& item, std::vector<std::uint32_t> words) const {
  const QuantisedLayer& layer = *item.layer;
  const LayerOrders::Order* const inputs = orders_.inputs_of(layer);
  const LayerOrders::Order* const outputs = orders_.outputs_of(layer);
  const bool is_weights = item.kind == Item::Kind::qweight;
  if (inputs != nullptr && is_weights) {
    const std::vector<std::uint32_t> src = std::exchange(words, std::vector<std::uint32_t>(words.size()));
    reorder_inputs(layer.format, layer.sizes, *inputs, src, words, threads_);
  }
  if (outputs != nullptr && !words.empty()) {
    const std::vector<std::uint32_t> src = std::exchange(words, std::vector<std::uint32_t>(words.size()));
    const auto reorder = is_weights ? reorder_outputs : reorder_output_zeros;
    reorder(layer.format, layer.sizes, *outputs, src, words, threads_);
  }
  return words;
}

/// A dense weight or a bias of a layer that makes the activations of a sorted layer.
void Conversion::reorder_rows(const Item& item, OutputFile& output) const {
  const auto src = read_numbers<std::byte>(checkpoint_, item.source);
  const LayerOrders::Order& order = *orders_.outputs_of(*item.source);
  const std::size_t row = src.size() / order.size();
  std::vector<std::byte> dst(src.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(src.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(order[i]) * row), row,
                dst.begin() + static_cast<std::ptrdiff_t>(i * row));
  output.append(dst);
}

}  // namespace cubit::tools
