// Parses mappings, and finds their groups in a checkpoint.
#include <algorithm>
#include <cubit/smooth.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "calibrate/errors.hpp"
#include "calibrate/smoothing/architectures.hpp"
#include "files/text/json.hpp"

namespace cubit::calibrate {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kNumber = "{}";
constexpr const char* kMappingWanted = "give a mapping as docs/calibration.md describes it";

/// What a name has in place of a pattern's open parts.
struct Match {
  std::string prefix;  ///< "model."
  std::string number;  ///< in place of {}
};

/// A pattern matches a name, or the end of a name after a dot. Its {} stands for a number.
std::optional<Match> match(std::string_view pattern, std::string_view name) {
  const std::size_t open = pattern.find(kNumber);
  const std::string_view tail = open == std::string_view::npos ? "" : pattern.substr(open + kNumber.size());
  if (!name.ends_with(tail)) return std::nullopt;
  name.remove_suffix(tail.size());
  Match found;
  if (open != std::string_view::npos) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
    found.number = name.substr(digits);
    if (found.number.empty()) return std::nullopt;
    name = name.substr(0, digits);
  }
  const std::string_view head = pattern.substr(0, open);
  if (!name.ends_with(head)) return std::nullopt;
  found.prefix = name.substr(0, name.size() - head.size());
  if (!found.prefix.empty() && !found.prefix.ends_with('.')) return std::nullopt;
  return found;
}

std::string filled(const std::string& pattern, const Match& found) {
  std::string name = pattern;
  if (const std::size_t open = name.find(kNumber); open != std::string::npos)
    name.replace(open, kNumber.size(), found.number);
  return found.prefix + name;
}

const Json& member(const Json& json, const char* name, const std::string& label) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || found == json.end())
    refuse(label, "lacks the member \"" + std::string(name) + "\"", kMappingWanted);
  return *found;
}

std::string text_member(const Json& json, const char* name, const std::string& label) {
  const Json& value = member(json, name, label);
  if (!value.is_string()) refuse(label, "has a \"" + std::string(name) + "\" that is not a text", kMappingWanted);
  return value.get<std::string>();
}

const Json& list_member(const Json& json, const char* name, const std::string& label) {
  const Json& value = member(json, name, label);
  if (!value.is_array()) refuse(label, "has a \"" + std::string(name) + "\" that is not a list", kMappingWanted);
  return value;
}

/// Whether the member has the second of two accepted values.
bool choice_member(const Json& json, const char* name, const char* first, const char* second,
                   const std::string& label) {
  const std::string value = text_member(json, name, label);
  if (value != first && value != second)
    refuse(label + ", \"" + name + "\": \"" + value + "\"", "is unknown",
           "accepted: \"" + std::string(first) + "\", \"" + second + "\"");
  return value == second;
}

std::vector<std::string> model_types_of(const Architecture& architecture) {
  return Json::parse(architecture.text).at("model_types").get<std::vector<std::string>>();
}

SmoothGroup parse_group(const Json& json, const std::string& label) {
  SmoothGroup group{text_member(json, "norm", label), {}};
  for (const Json& layer : list_member(json, "layers", label)) {
    if (!layer.is_string()) refuse(label, "has a layer that is not a text", kMappingWanted);
    group.layers.push_back(layer.get<std::string>());
  }
  if (group.layers.empty()) refuse(label + ", norm " + group.norm, "has no layers", kMappingWanted);
  return group;
}

/// A norm or a layer in two groups would be changed twice.
void require_once(std::set<std::string>& seen, const std::string& name, const std::string& label) {
  if (!seen.insert(name).second)
    refuse(label + ", " + name, "is named twice", "give each norm one group, with all layers that read the norm");
}

/// The layers of the tensors that end in ".weight".
std::vector<std::string> layers_of(std::span<const TensorName> tensors, std::size_t least_rank) {
  std::vector<std::string> layers;
  for (const TensorName& tensor : tensors)
    if (tensor.rank >= least_rank && tensor.name.ends_with(kWeightSuffix))
      layers.push_back(tensor.name.substr(0, tensor.name.size() - kWeightSuffix.size()));
  return layers;
}

}  // namespace

std::optional<Mapping> Mapping::find(std::string_view model_type) {
  return at_surface([&]() -> std::optional<Mapping> {
    for (const Architecture& one : architectures())
      for (const std::string& type : model_types_of(one))
        if (type == model_type) return parse(one.text, std::string(one.file));
    return std::nullopt;
  });
}

Mapping Mapping::of_model_type(std::string_view model_type) {
  return at_surface([&] {
    if (auto found = find(model_type)) return *found;
    std::string known;
    for (const Architecture& one : architectures())
      for (const std::string& type : model_types_of(one)) known += (known.empty() ? "known types: " : ", ") + type;
    refuse("model type " + std::string(model_type), "has no mapping of norms to layers",
           known + "; give a mapping for others");
  });
}

Mapping Mapping::parse(std::string_view text, const std::string& label) {
  return at_surface([&] {
    const Json json = tools::parse_json(text);
    if (!json.is_object()) refuse(label, "is not a JSON object", kMappingWanted);
    Mapping mapping;
    mapping.norm_adds_one_ = choice_member(json, "norm", "weight", "1 + weight", label);
    mapping.input_first_ = choice_member(json, "layout", "out,in", "in,out", label);
    std::set<std::string> seen;
    for (const Json& one : list_member(json, "smoothed", label)) {
      mapping.groups_.push_back(parse_group(one, label));
      require_once(seen, mapping.groups_.back().norm, label);
      for (const std::string& layer : mapping.groups_.back().layers) require_once(seen, layer, label);
    }
    if (mapping.input_first_)
      for (const SmoothGroup& group : mapping.groups_)
        mapping.input_first_layers_.insert(mapping.input_first_layers_.end(), group.layers.begin(), group.layers.end());
    if (!json.contains("not_smoothed")) return mapping;
    for (const Json& one : list_member(json, "not_smoothed", label)) {
      mapping.not_smoothed_.push_back({text_member(one, "layer", label), text_member(one, "reason", label)});
      const bool is_input_first =
          one.contains("layout") ? choice_member(one, "layout", "out,in", "in,out", label) : mapping.input_first_;
      if (is_input_first) mapping.input_first_layers_.push_back(mapping.not_smoothed_.back().layer);
    }
    return mapping;
  });
}

bool Mapping::stores_input_first(std::string_view layer) const {
  return std::any_of(input_first_layers_.begin(), input_first_layers_.end(),
                     [&](const std::string& pattern) { return match(pattern, layer).has_value(); });
}

SmoothPlan Mapping::plan(std::span<const TensorName> tensors) const {
  return at_surface([&] {
    const std::vector<std::string> weights = layers_of(tensors, 2);
    const std::set<std::string> known(weights.begin(), weights.end());
    SmoothPlan plan;
    std::set<std::string> planned;
    for (const std::string& norm : layers_of(tensors, 1)) {
      for (const SmoothGroup& pattern : groups_) {
        const auto found = match(pattern.norm, norm);
        if (!found) continue;
        SmoothGroup group{norm, {}};
        for (const std::string& layer : pattern.layers) group.layers.push_back(filled(layer, *found));
        for (const std::string& layer : group.layers) {
          if (!known.contains(layer))
            refuse("norm " + norm, "feeds the layer " + layer + ", whose weight the checkpoint does not have",
                   "give a checkpoint in 16 or 32 bits, and a mapping with all layers that read the norm");
          require_once(planned, layer, "the mapping");
        }
        require_once(planned, norm, "the mapping");
        plan.groups.push_back(group);
      }
    }
    for (const std::string& layer : weights) {
      if (planned.contains(layer)) continue;
      const auto reason = std::find_if(not_smoothed_.begin(), not_smoothed_.end(),
                                       [&](const NotSmoothed& one) { return match(one.layer, layer).has_value(); });
      plan.not_smoothed.push_back(
          {layer, reason == not_smoothed_.end() ? "the mapping names no norm before it" : reason->reason});
    }
    return plan;
  });
}

}  // namespace cubit::calibrate
