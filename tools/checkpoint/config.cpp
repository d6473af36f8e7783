#include "tools/checkpoint/config.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "files/input_file.hpp"
#include "files/text/error.hpp"
#include "files/text/json.hpp"

namespace cubit::tools {
namespace {

constexpr std::uint64_t kLargestConfig = 16 << 20;  ///< bytes

std::optional<bool> boolean(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() ? std::optional(found->get<bool>()) : std::nullopt;
}

std::optional<std::int64_t> integer(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

/// The member under the first of two names that has a value.
std::optional<std::int64_t> integer(const nlohmann::json& object, const char* name, const char* other_name) {
  const auto value = integer(object, name);
  return value ? value : integer(object, other_name);
}

template <class Value>
void keep_common(std::optional<Value>& value, const std::optional<Value>& other) {
  if (value != other) value.reset();
}

/// The statements that all groups of layers of compressed-tensors have in common.
void add_groups(W4Config& config, const nlohmann::json& groups) {
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    const nlohmann::json weights = group->is_object() ? group->value("weights", nlohmann::json()) : nlohmann::json();
    const W4Config one = {
        {}, {}, integer(weights, "num_bits"), integer(weights, "group_size"), boolean(weights, "symmetric")};
    if (group == groups.begin()) {
      config.bits = one.bits;
      config.group_size = one.group_size;
      config.sym = one.sym;
    }
    keep_common(config.bits, one.bits);
    keep_common(config.group_size, one.group_size);
    keep_common(config.sym, one.sym);
  }
}

/// The part of a config that is about quantisation. A model of several kinds of input has the part in text_config.
nlohmann::json quantisation_part(const nlohmann::json& json) {
  constexpr const char* kPart = "quantization_config";
  if (const auto part = json.find(kPart); part != json.end() && part->is_object()) return *part;
  const auto text = json.find("text_config");
  if (text == json.end() || !text->is_object()) return json;
  const auto part = text->find(kPart);
  return part != text->end() && part->is_object() ? *part : json;
}

/// The text of a file, or an empty text if the file cannot be read.
std::string text_of_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  try {
    const InputFile file(path.string());
    if (file.bytes() > kLargestConfig) return {};
    std::string text(file.bytes(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const BadInput&) {  // the statements are evidence alone; nothing depends on the file
    return {};
  }
}

/// Leaves out what the other file states too.
void leave_out_repeated(W4Config& config, const W4Config& other) {
  if (config.checkpoint_format == other.checkpoint_format) config.checkpoint_format.reset();
  if (config.bits == other.bits) config.bits.reset();
  if (config.group_size == other.group_size) config.group_size.reset();
  if (config.sym == other.sym) config.sym.reset();
  if (config.desc_act == other.desc_act) config.desc_act.reset();
}

}  // namespace

W4Config parse_quantisation_config(const std::string& file, std::string_view text) {
  W4Config config{file};
  const nlohmann::json whole = parse_json(text);
  if (!whole.is_object()) return config;
  const nlohmann::json json = quantisation_part(whole);
  if (const auto format = json.find("checkpoint_format"); format != json.end() && format->is_string())
    config.checkpoint_format = format->get<std::string>();
  // "dynamic" gives single layers other values.
  if (const auto dynamic = json.find("dynamic"); dynamic != json.end() && !dynamic->empty()) return config;
  config.bits = integer(json, "bits", "w_bit");  // the second names are those of AutoAWQ
  config.group_size = integer(json, "group_size", "q_group_size");
  config.sym = boolean(json, "sym");
  config.desc_act = boolean(json, "desc_act");
  config.static_groups = boolean(json, "static_groups").value_or(false);
  if (const auto groups = json.find("config_groups"); groups != json.end() && groups->is_object())
    add_groups(config, *groups);
  return config;
}

std::vector<W4Config> read_quantisation_configs(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::is_directory(path, error)
                                           ? std::filesystem::path(path)
                                           : std::filesystem::path(path).parent_path();
  std::vector<W4Config> configs;
  for (const char* const name : {"quantize_config.json", "quant_config.json", "config.json"}) {
    const std::string text = text_of_file(folder / name);
    if (text.empty()) continue;
    W4Config config = parse_quantisation_config(name, text);
    for (const W4Config& other : configs) leave_out_repeated(config, other);
    configs.push_back(std::move(config));
  }
  return configs;
}

}  // namespace cubit::tools
