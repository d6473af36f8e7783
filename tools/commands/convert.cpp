// cubit convert: converts a checkpoint's quantised layers from one layout to another. Only one tensor is in memory at a
// time. Each file of a sharded checkpoint becomes a file of the same name, and a new index names the file of each
// tensor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cubit/w4_checkpoint.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/safetensors/reader.hpp"
#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/config.hpp"
#include "tools/checkpoint/quantised_layers.hpp"
#include "tools/checkpoint/reader.hpp"
#include "tools/options/context.hpp"
#include "tools/text/console.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Converts the quantised layers of a checkpoint from one layout to another. Every weight keeps its value, bit for bit.
A layer consists of the tensors NAME.qweight, NAME.scales, NAME.qzeros and NAME.g_idx. All other tensors and the
metadata are copied. gptq and gptq_v2 differ only in their zeros, and a file does not name its layout, so --from must. A
layer that the target layout cannot store is refused: awq has no activation order, no 8-bit weights and no zero of 16;
gptq has no zero of 0; symmetric has only the zero 8 (128 for 8-bit weights). A symmetric layer without zeros does not
say how many bits a weight has: its g_idx says it, else --bits must. Layers may have different bits.)";

constexpr const char* kExamples = R"(
Examples:
  cubit convert --from gptq --to awq --input model.safetensors --output model.awq.safetensors
  cubit convert --from awq --to gptq_v2 --input model.safetensors --output model.gptq.safetensors --threads 8
  cubit convert --from gptq --to awq --input model.safetensors.index.json --output model_awq
      a checkpoint of several files, given by its index or its folder: writes files of the same names, and then a new
      index, into a folder
A group index in the default order (g_idx[k] = k / group size) is left out for awq. Other files of the checkpoint's
folder, such as config.json with its quantization_config, are not changed.

Exit code: 0 success; 1 the output could not be written; 2 bad input.)";

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;  ///< tensors are copied in chunks of this size

struct ConvertOptions {
  std::string from;
  std::string to;
  std::string input;
  std::string output;
  std::optional<int> bits;  ///< none: each layer tells its own
  int threads = 0;
  bool json = false;
};

W4Format parse_format(const char* option, const std::string& text) {
  for (const W4Format format : kW4Formats)
    if (text == text_of(format)) return format;
  throw BadInput(fmt::format("{} {}", option, text), "is not a format", fmt::format("accepted: {}", w4_format_names()));
}

/// How to make a tensor of the result.
struct Item {
  enum class Kind { copied, qweight, qzeros };
  Kind kind;
  HeaderEntry result;           ///< the offsets are set when all tensors of the file are known
  const HeaderEntry* source;    ///< null for zeros that the source does not store
  const QuantisedLayer* layer;  ///< null for a copied tensor
};

std::vector<std::uint32_t> read_words(const CheckpointReader& checkpoint, const HeaderEntry* tensor) {
  if (tensor == nullptr) return {};
  require_memory(2 * bytes_of(*tensor), checkpoint.path());  // the tensor and its conversion
  std::vector<std::uint32_t> words(bytes_of(*tensor) / sizeof(std::uint32_t));
  checkpoint.read(*tensor, 0, std::as_writable_bytes(std::span(words)));
  return words;
}

class Conversion {
 public:
  Conversion(const CheckpointReader& checkpoint, W4Format from, W4Format to, std::optional<int> bits, int threads)
      : checkpoint_(checkpoint),
        from_(from),
        to_(to),
        threads_(threads),
        layers_(find_quantised_layers(checkpoint, from, bits)),
        evidence_(read_quantisation_configs(checkpoint.path())) {
    for (const QuantisedLayer& layer : layers_) check(layer);
    plan();
  }
  std::size_t layers() const { return layers_.size(); }
  std::size_t others() const { return others_; }
  /// The bits of the layers, each number once.
  std::set<int> bits() const {
    std::set<int> bits;
    for (const QuantisedLayer& layer : layers_) bits.insert(layer.sizes.bits);
    return bits;
  }
  /// What contradicts --from; empty if nothing does.
  std::string warning() const { return evidence_.warning(); }

  /// Writes the converted file `index` of the checkpoint.
  void write(std::size_t index, OutputFile& output) const {
    std::vector<HeaderEntry> entries;
    for (const Item& item : items_[index]) entries.push_back(item.result);
    const std::string header = format_header(entries, checkpoint_.files()[index]->metadata());
    output.append(std::as_bytes(std::span(header)));
    for (const Item& item : items_[index]) item.kind == Item::Kind::copied ? copy(item, output) : convert(item, output);
    output.finish();
  }
  /// The index of the converted files, if the checkpoint has an index.
  std::string index_of(const std::vector<std::string>& names) const {
    std::map<std::string, std::string> files;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      for (const Item& item : items_[i]) files.emplace(item.result.name, names[i]);
      if (!items_[i].empty()) bytes += items_[i].back().result.offsets[1];
    }
    return checkpoint_.index_of(files, bytes);
  }

 private:
  /// Refuses a layer that the other format cannot store, before anything is written. Only the small tensors are read.
  void check(const QuantisedLayer& layer) {
    if (layer.sizes.bits == 8 && (from_ == W4Format::awq || to_ == W4Format::awq))
      refuse_tensor(*layer.qweight, "awq has weights of 4 bits, and this layer has 8",
                    "accepted for such layers: gptq, gptq_v2, symmetric");
    if (layer.g_idx != nullptr) check_order(layer);
    const std::vector<std::uint32_t> stored = read_words(checkpoint_, layer.qzeros);
    const W4LayerSizes& sizes = layer.sizes;
    evidence_.add(layer.name(), {from_, sizes.bits, sizes.k, sizes.groups, {}}, stored);
    std::vector<std::uint32_t> zeros(stores_zeros(to_) ? layer.sizes.qzeros_words() : 0);
    named(layer, [&] { convert_qzeros(from_, to_, sizes, stored, zeros, threads_); });
  }
  void check_order(const QuantisedLayer& layer) const {
    const HeaderEntry& g_idx = *layer.g_idx;
    if (from_ == W4Format::awq)
      refuse_tensor(g_idx, "awq has no activation order", "use --from gptq or gptq_v2, the format of the packer");
    if (g_idx.type != "I32" || g_idx.shape != std::vector<std::int64_t>{layer.sizes.k})
      refuse_tensor(g_idx, "a group index has a number for each k",
                    fmt::format("accepted: I32 [{}], of {} bits", layer.sizes.k, layer.sizes.bits));
    std::vector<std::int32_t> groups(static_cast<std::size_t>(layer.sizes.k));
    checkpoint_.read(g_idx, 0, std::as_writable_bytes(std::span(groups)));
    const auto is_none = [&](std::int32_t group) { return group < 0 || group >= layer.sizes.groups; };
    const auto none = std::find_if(groups.begin(), groups.end(), is_none);
    if (none != groups.end()) {
      refuse_tensor(
          g_idx,
          fmt::format("g_idx[{}] = {}, but there are {} groups", none - groups.begin(), *none, layer.sizes.groups),
          fmt::format("accepted: 0 to {}", layer.sizes.groups - 1));
    }
    if (to_ != W4Format::awq || is_in_order(groups, layer.sizes)) return;
    refuse_tensor(g_idx, "awq has no activation order, but this index is not k / group size",
                  "accepted for such layers: gptq, gptq_v2, symmetric");
  }
  template <class Work>
  void named(const QuantisedLayer& layer, Work work) const {
    try {
      work();
    } catch (const Error& error) {
      throw BadInput(fmt::format("{}, {}", quote(layer.name()), error.given()), error.why(), error.remedy());
    }
  }

  /// Plans the result. Tensors keep their order; zeros that the source does not store follow their weights.
  void plan() {
    std::unordered_map<const HeaderEntry*, const QuantisedLayer*> owners;
    for (const QuantisedLayer& layer : layers_)
      for (const HeaderEntry* tensor : {layer.qweight, layer.scales, layer.qzeros, layer.g_idx})
        if (tensor != nullptr) owners.emplace(tensor, &layer);
    for (const auto& file : checkpoint_.files()) {
      items_.emplace_back();
      for (const HeaderEntry& tensor : file->tensors()) {
        const auto owner = owners.find(&tensor);
        if (owner == owners.end()) {
          ++others_;
          items_.back().push_back({Item::Kind::copied, tensor, &tensor, nullptr});
        } else {
          plan_of_layer(tensor, *owner->second, items_.back());
        }
      }
      set_offsets(items_.back());
    }
  }
  static void set_offsets(std::vector<Item>& items) {
    std::uint64_t offset = 0;
    for (Item& item : items) {
      std::uint64_t bytes = item.layer == nullptr ? bytes_of(*item.source) : 4;
      if (item.layer != nullptr)
        for (const std::int64_t extent : item.result.shape) bytes *= static_cast<std::uint64_t>(extent);
      item.result.offsets = {offset, offset + bytes};
      offset += bytes;
    }
  }
  void plan_of_layer(const HeaderEntry& tensor, const QuantisedLayer& layer, std::vector<Item>& items) const {
    if (&tensor == layer.scales || &tensor == layer.g_idx) {
      if (&tensor == layer.scales || to_ != W4Format::awq)
        items.push_back({Item::Kind::copied, tensor, &tensor, nullptr});
      return;
    }
    const HeaderEntry zeros{
        layer.prefix + "qzeros", "I32", {layer.sizes.groups, layer.sizes.n / layer.sizes.in_word()}, {}};
    if (&tensor == layer.qzeros) {
      if (stores_zeros(to_)) items.push_back({Item::Kind::qzeros, zeros, &tensor, &layer});
      return;
    }
    const auto shape = layer.sizes.qweight_shape(to_);
    items.push_back({Item::Kind::qweight, {tensor.name, "I32", {shape[0], shape[1]}, {}}, &tensor, &layer});
    if (layer.qzeros == nullptr && stores_zeros(to_)) items.push_back({Item::Kind::qzeros, zeros, nullptr, &layer});
  }

  void copy(const Item& item, OutputFile& output) const {
    std::vector<std::byte> chunk;
    for (std::uint64_t begin = 0, bytes = bytes_of(*item.source); begin < bytes; begin += chunk.size()) {
      chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, bytes - begin)));
      checkpoint_.read(*item.source, begin, chunk);
      output.append(chunk);
    }
  }
  void convert(const Item& item, OutputFile& output) const {
    const std::vector<std::uint32_t> src = read_words(checkpoint_, item.source);
    std::vector<std::uint32_t> dst(bytes_of(item.result) / sizeof(std::uint32_t));
    const auto work = item.kind == Item::Kind::qweight ? convert_qweight : convert_qzeros;
    named(*item.layer, [&] { work(from_, to_, item.layer->sizes, src, dst, threads_); });
    output.append(std::as_bytes(std::span(dst)));
  }

  const CheckpointReader& checkpoint_;
  W4Format from_;
  W4Format to_;
  int threads_;
  std::vector<QuantisedLayer> layers_;
  W4Evidence evidence_;
  std::vector<std::vector<Item>> items_;  ///< for each file
  std::size_t others_ = 0;                ///< tensors that belong to no layer
};

std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

void write_one(const Conversion& conversion, const std::string& input, const std::string& path) {
  require_another_file("--output", path, input);
  OutputFile output(path);
  conversion.write(0, output);
}

/// Throws BadInput if a name in the folder is, or leads to, a file of the checkpoint.
void require_other_files(const CheckpointReader& checkpoint, const std::string& folder,
                         const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string output = (std::filesystem::path(folder) / name).string();
    require_another_file("--output", output, checkpoint.path());
    for (const auto& file : checkpoint.files()) require_another_file("--output", output, file->path());
  }
}

/// Removes the old index first and writes the new index last: a folder without an index is no checkpoint.
void write_several(const Conversion& conversion, const CheckpointReader& checkpoint, const std::string& folder) {
  make_folder(folder, "--output");
  std::vector<std::string> names;
  for (const auto& file : checkpoint.files()) names.push_back(name_of(file->path()));
  const std::string index = name_of(checkpoint.path());
  require_other_files(checkpoint, folder, names);
  require_other_files(checkpoint, folder, {index});
  remove_file(folder, index);
  for (std::size_t i = 0; i < names.size(); ++i) {
    OutputFile output((std::filesystem::path(folder) / names[i]).string());
    conversion.write(i, output);
  }
  write_file(folder, index, conversion.index_of(names));
}

int convert_checkpoint(const ConvertOptions& options, Console& console) {
  const W4Format from = parse_format("--from", options.from);
  const W4Format to = parse_format("--to", options.to);
  if (from == to)
    throw BadInput("--to " + options.to, "is the format of --from already",
                   fmt::format("accepted: another of {}", w4_format_names()));
  const int threads =
      options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (options.bits && *options.bits != 4 && *options.bits != 8)  // CLI11 accepts an empty word
    throw BadInput("--bits", "is not a valid number of bits", "accepted: 4, 8");
  if (options.bits == 8 && (from == W4Format::awq || to == W4Format::awq))
    throw BadInput("--bits 8", "awq has weights of 4 bits", "accepted: 4, or 8 with gptq, gptq_v2 and symmetric");
  const CheckpointReader checkpoint(options.input);
  const Conversion conversion(checkpoint, from, to, options.bits, threads);
  if (const std::string warning = conversion.warning(); !warning.empty()) console.say(warning);
  if (checkpoint.has_index())
    write_several(conversion, checkpoint, options.output);
  else
    write_one(conversion, checkpoint.path(), options.output);
  const std::set<int> bits = conversion.bits();
  if (options.json) {
    print_json({{"from", options.from},
                {"to", options.to},
                {"bits", bits.size() == 1 ? nlohmann::ordered_json(*bits.begin()) : nlohmann::ordered_json(bits)},
                {"layers", conversion.layers()},
                {"others", conversion.others()},
                {checkpoint.has_index() ? "output_folder" : "output_file", options.output}});
    return kExitGood;
  }
  fmt::print("{} {} of {} bits from {} to {}, {} other {} copied\nwritten to {}\n", conversion.layers(),
             conversion.layers() == 1 ? "layer" : "layers", fmt::join(bits, " and "), options.from, options.to,
             conversion.others(), conversion.others() == 1 ? "tensor" : "tensors", printable(options.output));
  return kExitGood;
}

}  // namespace

void add_convert(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("convert", kHelp);
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("--from", options->from, "Layout of the input: gptq, gptq_v2, awq or symmetric")->required();
  command->add_option("--to", options->to, "Layout of the output: gptq, gptq_v2, awq or symmetric")->required();
  command
      ->add_option("--input", options->input,
                   "A safetensors file with quantised layers, the index of several files, or the folder")
      ->required();
  command
      ->add_option("--output", options->output,
                   "The safetensors file to write, or the folder for several files; existing files are replaced")
      ->required();
  command
      ->add_option("--bits", options->bits,
                   "Bits of every weight: 4 or 8 (default: what each layer's zeros or g_idx say, else 4)")
      ->check(CLI::IsMember({4, 8}));
  command->add_option("--threads", options->threads, "Number of threads (default: number of processors)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(kExamples);
  command->final_callback([options, &context] {
    context.action = [options, &context] { return convert_checkpoint(*options, context.console); };
  });
}

}  // namespace cubit::tools
