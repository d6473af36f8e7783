#include "tools/checkpoint/smoothing_mapping.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "files/text/error.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"

namespace cubit::tools {

calibrate::Mapping smoothing_mapping(const CheckpointReader& checkpoint, const std::string& mapping,
                                     const std::string& architecture) {
  if (!mapping.empty()) return calibrate::Mapping::parse(whole_text(mapping), mapping);
  if (!architecture.empty()) return calibrate::Mapping::of_model_type(architecture);
  const std::string path = folder_of(checkpoint) + "/config.json";
  constexpr const char* kWanted = "give --architecture or --mapping";
  if (!std::filesystem::exists(path)) throw BadInput(path, "does not exist, so the architecture is unknown", kWanted);
  const auto config = nlohmann::json::parse(whole_text(path), nullptr, false);
  const auto type = config.is_object() ? config.find("model_type") : config.end();
  if (!config.is_object() || type == config.end() || !type->is_string())
    throw BadInput(path, "does not name a model_type", kWanted);
  return calibrate::Mapping::of_model_type(type->get<std::string>());
}

}  // namespace cubit::tools
