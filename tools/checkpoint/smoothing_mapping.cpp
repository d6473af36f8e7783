#include "tools/checkpoint/smoothing_mapping.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "files/text/error.hpp"
#include "files/text/json.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"

namespace cubit::tools {

std::string smoothing_model_type(const CheckpointReader& checkpoint, const std::string& architecture) {
  if (!architecture.empty()) return architecture;
  const std::string path = folder_of(checkpoint) + "/config.json";
  constexpr const char* kWanted = "give --architecture or --mapping";
  if (!std::filesystem::exists(path)) throw BadInput(path, "does not exist, so the architecture is unknown", kWanted);
  const auto config = parse_json(whole_text(path));
  const auto type = config.is_object() ? config.find("model_type") : config.end();
  if (!config.is_object() || type == config.end() || !type->is_string())
    throw BadInput(path, "does not name a model_type", kWanted);
  return type->get<std::string>();
}

calibrate::Mapping smoothing_mapping(const CheckpointReader& checkpoint, const std::string& mapping,
                                     const std::string& architecture) {
  if (!mapping.empty()) return calibrate::Mapping::parse(whole_text(mapping), mapping);
  return calibrate::Mapping::of_model_type(smoothing_model_type(checkpoint, architecture));
}

}  // namespace cubit::tools
