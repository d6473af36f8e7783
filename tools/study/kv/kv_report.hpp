// What cubit study kv reports: a table and a picture of its JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cubit::tools {

/// `study`: {"study": "kv", "entries": [entries of KvStudy::measure]}. One row per entry.
std::string kv_table(const nlohmann::ordered_json& study);

/// The error over the bytes per token, with logarithmic errors, as SVG.
std::string kv_picture(const nlohmann::ordered_json& study);

}  // namespace cubit::tools
