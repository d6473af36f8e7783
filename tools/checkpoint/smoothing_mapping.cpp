#include "tools/checkpoint/smoothing_mapping.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "files/text/error.hpp"
#include "files/text/json.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"

namespace cubit::tools {
namespace {

std::string config_path(const CheckpointReader& checkpoint) { return folder_of(checkpoint) + "/config.json"; }

/// The model_type of a config.json that exists.
std::optional<std::string> model_type_of(const std::string& config) {
  const auto json = parse_json(whole_text(config));
  const auto type = json.is_object() ? json.find("model_type") : json.end();
  if (!json.is_object() || type == json.end() || !type->is_string()) return std::nullopt;
  return type->get<std::string>();
}

}  // namespace

std::string smoothing_model_type(const CheckpointReader& checkpoint, const std::string& architecture) {
  if (!architecture.empty()) return architecture;
  const std::string path = config_path(checkpoint);
  constexpr const char* kWanted = "give --architecture or --mapping";
  if (!std::filesystem::exists(path)) throw BadInput(path, "does not exist, so the architecture is unknown", kWanted);
  const auto type = model_type_of(path);
  if (!type) throw BadInput(path, "does not name a model_type", kWanted);
  return *type;
}

calibrate::Mapping smoothing_mapping(const CheckpointReader& checkpoint, const std::string& mapping,
                                     const std::string& architecture) {
  if (!mapping.empty()) return calibrate::Mapping::parse(whole_text(mapping), mapping);
  return calibrate::Mapping::of_model_type(smoothing_model_type(checkpoint, architecture));
}

std::optional<calibrate::Mapping> known_mapping(const CheckpointReader& checkpoint, const std::string& mapping) {
  if (!mapping.empty()) return calibrate::Mapping::parse(whole_text(mapping), mapping);
  const std::string config = config_path(checkpoint);
  const auto type = std::filesystem::exists(config) ? model_type_of(config) : std::nullopt;
  return type ? calibrate::Mapping::find(*type) : std::nullopt;
}

}  // namespace cubit::tools
