#include "tools/new_checkpoint/smoother.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "tools/calibrate/saver.hpp"
#include "tools/checkpoint/smoothing_mapping.hpp"

namespace cubit::tools {
namespace {

namespace fs = std::filesystem;
using calibrate::Mapping;

constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
constexpr std::uint64_t kPartBytes = 16 * kMebi;  ///< tensors are copied in parts of this size

/// Runs `work`. The message of an Error names the norm.
template <class Work>
void for_norm(const std::string& norm, Work work) {
  try {
    work();
  } catch (const Error& error) {
    throw BadInput(fmt::format("norm {}, {}", norm, error.given()), error.why(), error.remedy());
  }
}

/// The inputs of a group's first layer that has some. All layers of a group have the same inputs.
const calibrate::NamedStatistics* recorded(const calibrate::Collector& collector, const calibrate::SmoothGroup& group) {
  for (const std::string& layer : group.layers)
    for (const calibrate::NamedStatistics& one : collector.layers())
      if (one.layer == layer && one.statistics.tokens() > 0) return &one;
  return nullptr;
}

/// A note has the factors before fold_norm replaces the factors. Numbers keep all of their bits.
std::string text_of_note(const SmoothedGroup& one) {
  const calibrate::Smoothing& made = one.smoothing;
  return nlohmann::json{{"alpha", made.alpha ? nlohmann::json(*made.alpha) : nlohmann::json()},
                        {"error_before", made.error_before},
                        {"error_half", made.error_half},
                        {"error", made.error},
                        {"factors", made.factors},
                        {"inputs", one.inputs},
                        {"weights", one.weights}}
      .dump();
}

SmoothedGroup parse_note(const std::string& text, const calibrate::SmoothGroup& group) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const auto number = [&](const char* name) {  // JSON has no NaN and stores null
    return json.at(name).is_null() ? std::numeric_limits<double>::quiet_NaN() : json.at(name).get<double>();
  };
  SmoothedGroup one{group, {}, json.at("inputs"), json.at("weights")};
  if (!json.at("alpha").is_null()) one.smoothing.alpha = number("alpha");
  one.smoothing.factors = json.at("factors").get<std::vector<float>>();
  one.smoothing.error_before = number("error_before");
  one.smoothing.error_half = number("error_half");
  one.smoothing.error = number("error");
  return one;
}

}  // namespace

Smoother::Smoother(SmoothingRequest request, Console& console)
    : request_(std::move(request)),
      console_(console),
      checkpoint_(request_.checkpoint),
      mapping_text_(request_.mapping.empty() ? smoothing_model_type(checkpoint_, request_.architecture)
                                             : whole_text(request_.mapping)),
      mapping_(request_.mapping.empty() ? Mapping::of_model_type(mapping_text_)
                                        : Mapping::parse(mapping_text_, request_.mapping)),
      activations_(calibrate::activation_files(request_.activations)) {
  std::vector<calibrate::TensorName> names;
  for (const auto& file : checkpoint_.files()) {
    for (const HeaderEntry& tensor : file->tensors()) {
      tensors_.emplace(tensor.name, &tensor);
      names.push_back({tensor.name, tensor.shape.size()});
      bytes_ += bytes_of(tensor);
    }
  }
  plan_ = mapping_.plan(names);
  report_.not_smoothed = plan_.not_smoothed;
  report_.is_searched = !request_.alpha;
}

std::string Smoother::request_text() const {
  nlohmann::ordered_json json = {{"alpha", request_.alpha ? nlohmann::json(*request_.alpha) : nlohmann::json("search")},
                                 {"mapping", mapping_text_},
                                 {"files", nlohmann::ordered_json::array()},
                                 {"activations", nlohmann::ordered_json::array()}};
  for (const auto& file : checkpoint_.files()) json["files"].push_back(identity_of(file->path()));
  for (const std::string& file : activations_) json["activations"].push_back(identity_of(file));
  return json.dump();
}

void Smoother::choose(const WholeFolder& folder) {
  const calibrate::Collector collector = collected(folder);
  for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
    const calibrate::SmoothGroup& group = plan_.groups[i];
    console_.progress(i, plan_.groups.size(), "norms, " + group.norm);
    const calibrate::NamedStatistics* inputs = recorded(collector, group);
    if (inputs == nullptr) {
      for (const std::string& layer : group.layers)
        report_.not_smoothed.push_back({layer, "its activations were not recorded"});
      continue;
    }
    for_norm(group.norm, [&] {
      const std::string note = WholeFolder::note_of(fmt::format("group{}", i));
      const bool is_known = folder.has(note);
      report_.groups.push_back(is_known ? parse_note(whole_text(folder.file(note)), group) : chosen(group, *inputs));
      if (!is_known) OutputFile(folder.file(note)).commit_text(text_of_note(report_.groups.back()));
      fold_group(report_.groups.back());
    });
  }
  console_.status("");
}

/// The ranges of the groups' inputs. Files that an earlier process has added are not read again.
calibrate::Collector Smoother::collected(const WholeFolder& folder) {
  std::vector<std::string> layers;
  for (const calibrate::SmoothGroup& group : plan_.groups)
    layers.insert(layers.end(), group.layers.begin(), group.layers.end());
  calibrate::Collector collector({.histogram = false, .moments = false}, 0, layers);
  if (layers.empty()) return collector;
  const std::string note = WholeFolder::note_of("inputs");
  if (folder.has(note)) collector.load(folder.file(note));
  std::vector<std::string> files;
  std::uint64_t total = 0;
  for (const std::string& file : activations_) {
    collector.check_file(file);
    if (collector.has_file(file)) continue;
    files.push_back(file);
    total += fs::file_size(file);
  }
  Saver saver(collector, folder.file(note));
  std::uint64_t before = 0;
  for (const std::string& file : files) {
    collector.add_file(file, [&](std::uint64_t bytes) {
      console_.progress((before + bytes) / kMebi, total / kMebi + 1, "MiB, " + file);
    });
    before += fs::file_size(file);
    saver.file_added();
  }
  console_.status("");
  if (!files.empty()) saver.save();
  return collector;
}

std::vector<std::byte> Smoother::bytes_of_tensor(const HeaderEntry& tensor) const {
  std::vector<std::byte> bytes(bytes_of(tensor));
  checkpoint_.read(tensor, 0, bytes);
  return bytes;
}

SmoothedGroup Smoother::chosen(const calibrate::SmoothGroup& group, const calibrate::NamedStatistics& inputs) const {
  if (inputs.statistics.non_finite() > 0)
    throw BadInput(fmt::format("layer {}, {} values", inputs.layer, inputs.statistics.non_finite()), "are not finite",
                   "record activations again without NaNs and infinities");
  calibrate::SmoothSearch search(inputs.statistics.channel_magnitudes(),
                                 calibrate::sample_tokens(activations_, inputs.layer));
  for (const std::string& layer : group.layers) {
    const HeaderEntry& weight = *tensors_.at(layer + ".weight");
    search.add_layer({weight.type, weight.shape, bytes_of_tensor(weight)}, mapping_.input_first());
  }
  calibrate::Smoothing made = request_.alpha ? search.with_alpha(*request_.alpha) : search.search();
  if (!request_.alpha) compare_with_one_half(group, inputs.layer, search, made);
  return {group,
          std::move(made),
          {search.inputs().begin(), search.inputs().end()},
          {search.weights().begin(), search.weights().end()}};
}

/// Keeps the alpha of the search only if it has the least error on all tokens and output channels, among alpha = 0.5
/// and no smoothing. The errors are those of the folded factors. A choice that cannot be folded is left out.
void Smoother::compare_with_one_half(const calibrate::SmoothGroup& group, const std::string& recorded,
                                     const calibrate::SmoothSearch& search, calibrate::Smoothing& made) const {
  std::vector<std::optional<double>> alphas;
  std::vector<std::vector<float>> choices;
  for (const std::optional<double> alpha : {made.alpha, std::optional(0.5), std::optional<double>()}) {
    if (std::find(alphas.begin(), alphas.end(), alpha) != alphas.end()) continue;
    std::vector<float> factors = alpha ? search.factors(*alpha) : std::vector<float>(search.inputs().size(), 1);
    try {
      folded(group.norm, factors);
    } catch (const Error&) {
      continue;
    }
    alphas.push_back(alpha);
    choices.push_back(std::move(factors));
  }
  calibrate::OutputErrors compared({search.inputs().begin(), search.inputs().end()}, choices);
  std::size_t done = 0;
  for (const std::string& layer : group.layers) {
    const HeaderEntry& weight = *tensors_.at(layer + ".weight");
    compared.add_layer({weight.type, weight.shape, bytes_of_tensor(weight)}, mapping_.input_first(), activations_,
                       recorded, [&](std::size_t files) {
                         console_.progress(done + files, group.layers.size() * activations_.size() + 1,
                                           "files, all tokens of " + group.norm);
                       });
    done += activations_.size();
  }
  const std::vector<double> errors = compared.errors();
  const auto error_of = [&](std::optional<double> alpha) {
    const auto at = std::find(alphas.begin(), alphas.end(), alpha);
    return at == alphas.end() ? std::numeric_limits<double>::quiet_NaN()
                              : errors[static_cast<std::size_t>(at - alphas.begin())];
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < errors.size(); ++i)
    if (errors[i] < errors[best] || std::isnan(errors[best])) best = i;
  made.alpha = alphas[best];
  made.factors = made.alpha ? search.factors(*made.alpha) : std::vector<float>(search.inputs().size(), 1);
  made.error_before = error_of(std::nullopt);
  made.error_half = error_of(0.5);
  made.error = errors[best];
}

/// The folded norm. Replaces the factors by those that the norm's type allows.
Smoother::FoldedNorm Smoother::folded(const std::string& norm, std::vector<float>& factors) const {
  const HeaderEntry& weight = *tensors_.at(norm + ".weight");
  const auto bias = tensors_.find(norm + ".bias");
  FoldedNorm made{bytes_of_tensor(weight), {}};
  if (bias != tensors_.end()) made.bias = bytes_of_tensor(*bias->second);
  calibrate::fold_norm({weight.type, made.weight},
                       {bias == tensors_.end() ? weight.type : bias->second->type, made.bias}, mapping_.norm_adds_one(),
                       factors);
  return made;
}

/// Folds the norm in memory, and keeps the factors for the layers' weights.
void Smoother::fold_group(SmoothedGroup& one) {
  FoldedNorm norm = folded(one.group.norm, one.smoothing.factors);
  norms_[one.group.norm + ".weight"] = std::move(norm.weight);
  if (tensors_.contains(one.group.norm + ".bias")) norms_[one.group.norm + ".bias"] = std::move(norm.bias);
  const auto shared = std::make_shared<const std::vector<float>>(one.smoothing.factors);
  for (const std::string& layer : one.group.layers) factors_[layer + ".weight"] = {shared, layer};
}

void Smoother::write(const WholeFolder& folder) {
  std::map<std::string, std::string> names;
  for (const auto& file : checkpoint_.files()) {
    const std::string name = fs::path(file->path()).filename().string();
    for (const HeaderEntry& tensor : file->tensors()) names.emplace(tensor.name, name);
    if (!folder.has(name)) {
      write_file(*file, folder.file(name));
      continue;
    }
    for (const HeaderEntry& tensor : file->tensors()) written_ += bytes_of(tensor);
  }
  console_.status("");
  copy_texts(folder_of(checkpoint_), folder);
  if (checkpoint_.has_index())
    OutputFile(folder.file(fs::path(checkpoint_.path()).filename().string()))
        .commit_text(checkpoint_.index_of(names, bytes_));
}

void Smoother::write_file(const SafetensorsReader& file, const std::string& path) {
  OutputFile output(path);
  const std::string header = format_header(file.tensors(), file.metadata());
  output.append(std::as_bytes(std::span(header)));
  for (const HeaderEntry& tensor : file.tensors()) write_tensor(tensor, output);
  output.finish();
}

void Smoother::write_tensor(const HeaderEntry& tensor, OutputFile& output) {
  if (const auto norm = norms_.find(tensor.name); norm != norms_.end()) return output.append(norm->second);
  const auto factors = factors_.find(tensor.name);
  const std::uint64_t all = bytes_of(tensor);
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= static_cast<std::uint64_t>(size);
  std::vector<std::byte> part;
  for (std::uint64_t begin = 0; begin < all; begin += part.size()) {
    part.resize(static_cast<std::size_t>(std::min(kPartBytes, all - begin)));
    checkpoint_.read(tensor, begin, part);
    if (factors != factors_.end())
      for_norm(factors->second.layer, [&] {
        calibrate::fold_weight({tensor.type, part}, begin / (all / elements),
                               static_cast<std::uint64_t>(tensor.shape[1]), mapping_.input_first(),
                               *factors->second.factors);
      });
    output.append(part);
    written_ += part.size();
    console_.progress(written_ / kMebi, bytes_ / kMebi + 1, "MiB, " + tensor.name);
  }
}

}  // namespace cubit::tools
