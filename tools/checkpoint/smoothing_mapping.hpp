// Which mapping of norms to layers a checkpoint has.
#pragma once

#include <cubit/smooth.hpp>
#include <optional>
#include <string>

#include "tools/checkpoint/reader.hpp"

namespace cubit::tools {

/// `architecture`, or the model_type of the checkpoint's config.json if `architecture` is "".
std::string smoothing_model_type(const CheckpointReader& checkpoint, const std::string& architecture);

/// The mapping of the file `mapping`, else of the model_type `architecture`, else of the model_type in the checkpoint's
/// config.json. Empty texts are not given. Throws BadInput or cubit::Error.
calibrate::Mapping smoothing_mapping(const CheckpointReader& checkpoint, const std::string& mapping,
                                     const std::string& architecture);

/// The mapping of the file `mapping`, else the built-in mapping of the checkpoint's architecture. Nothing if
/// config.json is missing or names no known architecture. Throws BadInput or cubit::Error.
std::optional<calibrate::Mapping> known_mapping(const CheckpointReader& checkpoint, const std::string& mapping);

}  // namespace cubit::tools
