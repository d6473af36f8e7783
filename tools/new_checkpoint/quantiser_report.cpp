// What cubit quantize-checkpoint reports.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "files/text/format.hpp"
#include "tools/new_checkpoint/quantiser.hpp"

namespace cubit::tools {

std::string quantisation_table(const CheckpointQuantiser& quantiser) {
  std::vector<std::vector<std::string>> rows;
  for (const QuantisedLayerReport& one : quantiser.layers())
    rows.push_back({one.layer, fmt::format("{} x {}", one.shape[0], one.shape[1]),
                    fmt::format("{:.3g}", one.least_scale), fmt::format("{:.3g}", one.largest_scale),
                    one.input_scale ? fmt::format("{:.3g}", *one.input_scale) : "per token",
                    fmt::format("{:.3g}", one.error)});
  std::string text = format_table({{"layer"},
                                   {"n x k", true},
                                   {"least scale", true},
                                   {"largest scale", true},
                                   {"input scale", true},
                                   {"error", true}},
                                  rows);
  rows.clear();
  for (const KeptLayer& one : quantiser.kept()) rows.push_back({one.layer, one.reason});
  if (!rows.empty()) text += "\n" + format_table({{"not quantised"}, {"reason"}}, rows);
  double worst = 0;
  for (const QuantisedLayerReport& one : quantiser.layers()) worst = std::max(worst, one.error);
  return text + fmt::format("\n{} layers are quantised, with an error of at most {:.3g} of their weights\n",
                            quantiser.layers().size(), worst);
}

nlohmann::ordered_json quantisation_json(const QuantisedLayerReport& report) {
  nlohmann::ordered_json json = {{"layer", report.layer},
                                 {"n", report.shape[0]},
                                 {"k", report.shape[1]},
                                 {"least_scale", report.least_scale},
                                 {"largest_scale", report.largest_scale},
                                 {"error", report.error}};
  if (report.input_scale) json["input_scale"] = *report.input_scale;
  return json;
}

nlohmann::ordered_json quantisation_json(const CheckpointQuantiser& quantiser) {
  nlohmann::ordered_json json = {{"layers", nlohmann::ordered_json::array()},
                                 {"not_quantised", nlohmann::ordered_json::array()}};
  for (const QuantisedLayerReport& one : quantiser.layers()) json["layers"].push_back(quantisation_json(one));
  for (const KeptLayer& one : quantiser.kept())
    json["not_quantised"].push_back({{"layer", one.layer}, {"reason", one.reason}});
  return json;
}

}  // namespace cubit::tools
