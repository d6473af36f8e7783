// What cubit study accuracy reports: tables and a picture of its JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cubit::tools {

/// `study`: {"study": "accuracy", "error": what the errors are of, "layers": [names], "entries": [{"activations",
/// "weights", "alpha", "error", "layers": {name: error}}]}. An alpha of null is no SmoothQuant. The first table has the
/// errors, with a column per alpha. The second table has the errors of all layers without SmoothQuant and with each
/// row's best alpha.
std::string accuracy_tables(const nlohmann::ordered_json& study);

/// A line per row of the table over alpha, with logarithmic errors, as SVG.
std::string accuracy_picture(const nlohmann::ordered_json& study);

}  // namespace cubit::tools
