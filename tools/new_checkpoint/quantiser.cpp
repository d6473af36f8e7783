#include "tools/new_checkpoint/quantiser.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <cubit/quantised_weights.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/transpose.hpp"
#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "files/text/json.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/layer.hpp"
#include "tools/checkpoint/smoothing_mapping.hpp"

namespace cubit::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBias = ".bias";
constexpr std::string_view kWeightScale = ".weight_scale";
constexpr std::string_view kInputScale = ".input_scale";

/// Types of weights that nobody has quantised.
constexpr std::array<std::string_view, 4> kDenseTypes = {"F64", "F32", "F16", "BF16"};

bool is_dense_type(const std::string& type) {
  return std::find(kDenseTypes.begin(), kDenseTypes.end(), type) != kDenseTypes.end();
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

/// Whether the layer looks up rows by an index, which is no product.
bool is_embedding(const std::string& layer) {
  const std::string last = layer.substr(layer.rfind('.') + 1);  // npos + 1 is 0
  return last.find("embed") != std::string::npos || last == "wte" || last == "wpe";
}

std::string_view code_type(calibrate::Format format) { return format == calibrate::Format::e4m3 ? "F8_E4M3" : "I8"; }

/// An entry without offsets, which are set when all entries of a file are known.
HeaderEntry entry(std::string name, std::string_view type, std::vector<std::int64_t> shape, std::uint64_t bytes) {
  return {std::move(name), std::string(type), std::move(shape), {0, bytes}};
}

void set_offsets(std::vector<HeaderEntry>& entries) {
  std::uint64_t end = 0;
  for (HeaderEntry& one : entries) {
    const std::uint64_t bytes = bytes_of(one);
    one.offsets = {end, end + bytes};
    end += bytes;
  }
}

QuantisedLayerReport report_of(const nlohmann::ordered_json& json) {
  QuantisedLayerReport report = {json.at("layer"),       {json.at("n"), json.at("k")},
                                 json.at("least_scale"), json.at("largest_scale"),
                                 json.at("error"),       std::nullopt};
  if (json.contains("input_scale")) report.input_scale = json.at("input_scale").get<float>();
  return report;
}

/// The scale of a layer's activations.
float input_scale_of(const std::string& path, const TensorView& tensor) {
  const std::string given = fmt::format("{}, tensor {}", path, tensor.name);
  float scale = 0;
  if (tensor.type != "F32" || tensor.data.size() != sizeof scale)
    throw BadInput(given, "is not one F32 number", "give the file that cubit calibrate --output has written");
  std::memcpy(&scale, tensor.data.data(), sizeof scale);
  if (!(std::isfinite(scale) && scale > 0))
    throw BadInput(fmt::format("{} = {}", given, scale), "a scale is positive and finite", "calibrate again");
  return scale;
}

}  // namespace

CheckpointQuantiser::CheckpointQuantiser(const std::string& path, QuantisationRequest request)
    : checkpoint_(path), request_(std::move(request)) {
  read_scales();
  plan();
}

void CheckpointQuantiser::read_scales() {
  if (request_.scales.empty()) return;
  const SafetensorsReader reader(request_.scales);
  const std::string wanted(calibrate::text_of(request_.format));
  const auto found = reader.metadata().find("input_format");  // files of other programs lack the entry
  const std::string format = found == reader.metadata().end() ? wanted : found->second;
  if (format != wanted && format != calibrate::text_of(calibrate::Format::int8_asymmetric))
    throw BadInput(request_.scales, fmt::format("has scales for {}, not for {}", quote(format), wanted),
                   fmt::format("give --format {}, or calibrate with --format {}", format, wanted));
  const SafetensorsFile file(reader, [](const std::string&) { return true; });
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.name.ends_with(".input_zero_point"))
      throw BadInput(fmt::format("{}, tensor {}", request_.scales, tensor.name),
                     "layers take activations without a zero point",
                     "calibrate with --format int8, or e4m3 for --format e4m3");
    if (!tensor.name.ends_with(kInputScale)) continue;
    const std::string layer = tensor.name.substr(0, tensor.name.size() - kInputScale.size());
    input_scales_[layer] = input_scale_of(request_.scales, tensor);
  }
}

void CheckpointQuantiser::plan() {
  const auto mapping = known_mapping(checkpoint_, request_.mapping);
  for (const auto& file : checkpoint_.files()) {
    for (const HeaderEntry& tensor : file->tensors()) {
      bytes_ += bytes_of(tensor);
      if (tensor.shape.size() != 2 || !tensor.name.ends_with(kWeight)) continue;
      Layer layer = {tensor.name.substr(0, tensor.name.size() - kWeight.size()), std::nullopt};
      layer.input_first = mapping && mapping->stores_input_first(layer.name);
      layer.shape = tensor.shape;
      if (layer.input_first) std::swap(layer.shape[0], layer.shape[1]);
      if (auto reason = reason_to_keep(tensor, layer)) {
        kept_.push_back({layer.name, std::move(*reason)});
        continue;
      }
      if (!request_.scales.empty()) layer.input_scale = scale_of_inputs(layer.name);
      layers_.emplace(tensor.name, std::move(layer));
    }
  }
  for (const auto& file : checkpoint_.files()) {
    for (const HeaderEntry& tensor : file->tensors()) {
      require_new(tensor.name);
      require_bias(tensor);
    }
  }
  if (layers_.empty())
    throw BadInput(checkpoint_.path(), "has no linear layer that can be quantised",
                   "give a checkpoint with weights [n, k] in F16, BF16 or F32");
}

/// Refuses a tensor whose name the result gives to a scale.
void CheckpointQuantiser::require_new(const std::string& tensor) const {
  for (const std::string_view scale : {kWeightScale, kInputScale}) {
    if (!tensor.ends_with(scale)) continue;
    const std::string layer = tensor.substr(0, tensor.size() - scale.size());
    const auto quantised = layers_.find(layer + std::string(kWeight));
    if (quantised == layers_.end() || (scale == kInputScale && !quantised->second.input_scale)) continue;
    throw BadInput(fmt::format("{}, tensor {}", checkpoint_.path(), tensor),
                   "has the name of a scale that this command writes",
                   "give a checkpoint that is not quantised, or add --ignore " + layer);
  }
}

/// A layer's bias shows the number of output channels. Refuses a layer whose weight has another layout.
void CheckpointQuantiser::require_bias(const HeaderEntry& bias) const {
  if (bias.shape.size() != 1 || !bias.name.ends_with(kBias)) return;
  const std::string layer = bias.name.substr(0, bias.name.size() - kBias.size());
  const auto found = layers_.find(layer + std::string(kWeight));
  if (found == layers_.end() || found->second.shape[0] == bias.shape[0]) return;
  const std::int64_t n = found->second.shape[0];
  throw BadInput(fmt::format("{}, layer {}", checkpoint_.path(), layer),
                 fmt::format("has {} output channels in the layout {}, but a bias for {} output channels", n,
                             found->second.input_first ? "[in, out]" : "[out, in]", bias.shape[0]),
                 "give a config.json with the model_type, or --mapping with the layout of the layers");
}

float CheckpointQuantiser::scale_of_inputs(const std::string& layer) const {
  const auto scale = input_scales_.find(layer);
  if (scale == input_scales_.end())
    throw BadInput(request_.scales, fmt::format("has no {}{}", layer, kInputScale),
                   "calibrate this layer too, or add --ignore " + layer);
  return scale->second;
}

std::optional<std::string> CheckpointQuantiser::reason_to_keep(const HeaderEntry& weight, const Layer& layer) const {
  for (const std::string& pattern : request_.ignored)
    if (::fnmatch(pattern.c_str(), layer.name.c_str(), 0) == 0) return "--ignore " + pattern;
  if (is_embedding(layer.name)) return "an embedding";
  if (!is_dense_type(weight.type)) return "its type is " + weight.type;
  constexpr std::int64_t kMostColumns = 131056;  // of sums in 32 bits
  const std::int64_t n = layer.shape[0];
  const std::int64_t k = layer.shape[1];
  if (n % 8 != 0 || k % 16 != 0 || n == 0 || k == 0 || k > kMostColumns)
    return fmt::format("w8a8_gemm takes no weights [{}, {}]", n, k);
  return std::nullopt;
}

std::string CheckpointQuantiser::request_text() const {
  nlohmann::ordered_json json = {{"format", calibrate::text_of(request_.format)},
                                 {"per_channel", request_.per_channel},
                                 {"ignored", request_.ignored},
                                 {"input_first", nlohmann::ordered_json::array()},
                                 {"files", nlohmann::ordered_json::array()}};
  for (const auto& [tensor, layer] : layers_)
    if (layer.input_first) json["input_first"].push_back(tensor);
  for (const auto& file : checkpoint_.files()) json["files"].push_back(identity_of(file->path()));
  if (!request_.scales.empty()) json["scales"] = identity_of(request_.scales);
  return json.dump();
}

/// A layer's tensors take the place of its weight.
std::vector<HeaderEntry> CheckpointQuantiser::entries_of(const SafetensorsReader& file) const {
  std::vector<HeaderEntry> entries;
  for (const HeaderEntry& tensor : file.tensors()) {
    const auto layer = layers_.find(tensor.name);
    if (layer == layers_.end()) {
      entries.push_back(tensor);
      continue;
    }
    const std::vector<std::int64_t>& shape = layer->second.shape;
    const std::int64_t rows = shape[0];
    const auto codes = static_cast<std::uint64_t>(rows * shape[1]);
    const std::int64_t scales = request_.per_channel ? rows : 1;
    entries.push_back(entry(tensor.name, code_type(request_.format), shape, codes));
    entries.push_back(entry(layer->second.name + std::string(kWeightScale), "F32",
                            request_.per_channel ? std::vector{rows, std::int64_t{1}} : std::vector{std::int64_t{1}},
                            sizeof(float) * static_cast<std::uint64_t>(scales)));
    if (layer->second.input_scale)
      entries.push_back(entry(layer->second.name + std::string(kInputScale), "F32", {1}, sizeof(float)));
  }
  set_offsets(entries);
  return entries;
}

void CheckpointQuantiser::write(WholeFolder& folder, const Show& show) {
  std::map<std::string, std::string> names;
  std::uint64_t written = 0;
  for (const auto& file : checkpoint_.files()) {
    const std::string name = file_name(file->path());
    for (const HeaderEntry& one : entries_of(*file)) {
      names.emplace(one.name, name);
      written += bytes_of(one);
    }
    const std::string note = WholeFolder::note_of(name);
    if (folder.has(name) && folder.has(note)) {
      for (const auto& json : nlohmann::ordered_json::parse(whole_text(folder.file(note))))
        reports_.push_back(report_of(json));
      for (const HeaderEntry& tensor : file->tensors()) read_ += bytes_of(tensor);
      continue;
    }
    const std::size_t before = reports_.size();
    write_file(*file, folder.file(name), show);
    auto rows = nlohmann::ordered_json::array();
    for (std::size_t i = before; i < reports_.size(); ++i) rows.push_back(quantisation_json(reports_[i]));
    OutputFile(folder.file(note)).commit_text(rows.dump());
  }
  copy_texts(folder_of(checkpoint_), folder);
  write_config(folder);
  if (checkpoint_.has_index())
    OutputFile(folder.file(file_name(checkpoint_.path()))).commit_text(checkpoint_.index_of(names, written));
}

void CheckpointQuantiser::write_file(const SafetensorsReader& file, const std::string& path, const Show& show) {
  OutputFile output(path);
  const std::vector<HeaderEntry> entries = entries_of(file);
  const std::string header = format_header(entries, file.metadata());
  output.append(std::as_bytes(std::span(header)));
  for (const HeaderEntry& tensor : file.tensors()) {
    show(read_, bytes_, tensor.name);
    const auto layer = layers_.find(tensor.name);
    layer == layers_.end() ? copy(tensor, output) : write_layer(tensor, layer->second, output);
    read_ += bytes_of(tensor);
  }
  output.finish();
}

void CheckpointQuantiser::copy(const HeaderEntry& tensor, OutputFile& output) const {
  constexpr std::uint64_t kPartBytes = std::uint64_t{16} << 20;
  const std::uint64_t all = bytes_of(tensor);
  std::vector<std::byte> part;
  for (std::uint64_t begin = 0; begin < all; begin += part.size()) {
    part.resize(static_cast<std::size_t>(std::min(kPartBytes, all - begin)));
    checkpoint_.read(tensor, begin, part);
    output.append(part);
  }
}

void CheckpointQuantiser::write_layer(const HeaderEntry& weight, const Layer& layer, OutputFile& output) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(weight)));
  checkpoint_.read(weight, 0, bytes);
  if (layer.input_first) {
    const auto columns = static_cast<std::size_t>(weight.shape[1]);
    bytes = transposed_bytes(bytes, columns, bytes.size() / columns / static_cast<std::size_t>(weight.shape[0]));
  }
  calibrate::QuantisedWeights made;
  try {
    made = calibrate::quantise_weights({weight.type, layer.shape, bytes}, request_.format, request_.per_channel);
  } catch (const Error& error) {
    throw BadInput(fmt::format("layer {}, {}", layer.name, error.given()), error.why(), error.remedy());
  }
  output.append(made.codes);
  output.append(std::as_bytes(std::span(made.scales)));
  if (layer.input_scale) output.append(std::as_bytes(std::span(&*layer.input_scale, 1)));
  const auto [least, largest] = std::minmax_element(made.scales.begin(), made.scales.end());
  reports_.push_back({layer.name, layer.shape, *least, *largest, made.error, layer.input_scale});
}

nlohmann::ordered_json CheckpointQuantiser::quantisation_config() const {
  const bool is_float = request_.format == calibrate::Format::e4m3;
  const nlohmann::ordered_json type = {{"num_bits", 8}, {"type", is_float ? "float" : "int"}, {"symmetric", true}};
  nlohmann::ordered_json weights = type;
  weights["strategy"] = request_.per_channel ? "channel" : "tensor";
  weights["dynamic"] = false;
  nlohmann::ordered_json activations = type;
  activations["strategy"] = request_.scales.empty() ? "token" : "tensor";
  activations["dynamic"] = request_.scales.empty();
  auto ignored = nlohmann::ordered_json::array();
  for (const KeptLayer& one : kept_)
    if (one.reason != "an embedding") ignored.push_back(one.layer);
  const nlohmann::ordered_json group = {
      {"targets", {"Linear"}}, {"weights", weights}, {"input_activations", activations}};
  return {{"quant_method", "compressed-tensors"},
          {"format", is_float ? "float-quantized" : "int-quantized"},
          {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", group}}},
          {"ignore", ignored}};
}

/// config.json with the statements of compressed-tensors about the quantisation.
void CheckpointQuantiser::write_config(const WholeFolder& folder) const {
  const std::string source = folder_of(checkpoint_) + "/config.json";
  auto config = nlohmann::ordered_json::object();
  if (fs::exists(source)) {
    config = parse_json<nlohmann::ordered_json>(whole_text(source));
    if (!config.is_object()) throw BadInput(source, "is not a JSON object", "copy the checkpoint again");
  }
  config["quantization_config"] = quantisation_config();
  OutputFile(folder.file("config.json")).commit_text(config.dump(2) + "\n");
}

}  // namespace cubit::tools
