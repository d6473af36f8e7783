#include "tools/bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/error.hpp"
#include "tools/text.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTargetDevice = "NVIDIA H200";  // whose microseconds cubit_operators states

bool is_measured(const Json& entry) { return entry.contains("microseconds"); }

double target(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found == entry.end() || found->is_null() ? 0 : found->get<double>();
}

/// "41.0 us, 93%"
std::string target_text(const Json& entry) {
  const double microseconds = target(entry, "target_microseconds");
  const double share = target(entry, "target_share");
  std::string text;
  if (microseconds > 0) text = fmt::format("{:.1f} us", microseconds);
  if (share > 0) text += fmt::format("{}{:.0f}%", text.empty() ? "" : ", ", 100 * share);
  return text;
}

std::string sizes_text(const Json& entry) {
  std::string text;
  for (const auto& [name, value] : case_sizes(entry))
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

std::vector<std::string> measured_cells(const Json& entry) {
  const auto number = [&](const char* name) { return entry.at(name).get<double>(); };
  return {fmt::format("{:.1f}", number("microseconds")), fmt::format("{:.1f}", number("floor_microseconds")),
          fmt::format("{:.0f}", number("gigabytes_per_second")), fmt::format("{:.1f}%", 100 * number("floor_share"))};
}

std::string measured_table(const std::vector<Json>& entries) {
  std::vector<std::vector<std::string>> rows;
  std::string skipped;
  for (const Json& entry : entries) {
    const auto name = entry.at("name").get<std::string>();
    const auto descriptor = entry.at("descriptor").get<std::string>();
    if (!is_measured(entry)) {
      skipped += fmt::format("{}, {}: not measured: {}\n", name, descriptor, entry.at("skipped").get<std::string>());
      continue;
    }
    std::vector<std::string> row = {name, descriptor};
    for (std::string& cell : measured_cells(entry)) row.push_back(std::move(cell));
    row.push_back(target_text(entry));
    row.push_back(target_met(entry));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return skipped;
  return format_table({{"case"},
                       {"kernel"},
                       {"us", true},
                       {"floor us", true},
                       {"GB/s", true},
                       {"of floor", true},
                       {"target", true},
                       {"met"}},
                      rows) +
         skipped;
}

std::string planned_table(const std::vector<Json>& entries) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& entry : entries) {
    rows.push_back(
        {entry.at("name"), entry.at("descriptor"), sizes_text(entry), target_text(entry), entry.value("skipped", "")});
  }
  return format_table({{"case"}, {"kernel"}, {"sizes"}, {"target", true}, {"not measured"}}, rows);
}

}  // namespace

Json bench_cases(const Json& operators, const std::string& name) {
  for (const Json& entry : operators) {
    if (entry.at("name") == name) return entry.at("bench");
  }
  throw BadInput(quote(name), "is not an operator", "cubit operators lists them");
}

Json with_sizes(Json cases, const Numbers& sizes) {
  if (sizes.empty()) return cases;
  for (Json& one : cases) {
    for (const auto& [name, value] : sizes) one["sizes"][name] = value;
    one["target_microseconds"] = nullptr;
    one["target_share"] = nullptr;
  }
  return cases;
}

Json matching(const Json& cases, const std::string& part) {
  Json chosen = Json::array();
  for (const Json& one : cases) {
    for (const char* name : {"group", "name", "descriptor"}) {
      if (one.at(name).get<std::string>().find(part) == std::string::npos) continue;
      chosen.push_back(one);
      break;
    }
  }
  return chosen;
}

Numbers case_sizes(const Json& one) {
  Numbers sizes;
  for (const auto& [name, value] : one.at("sizes").items()) sizes.emplace_back(name, value.get<double>());
  return sizes;
}

std::string target_met(const Json& entry) {
  if (!is_measured(entry)) return "";
  const double share = target(entry, "target_share");
  const double microseconds = entry.at("device") == kTargetDevice ? target(entry, "target_microseconds") : 0;
  if (share == 0 && microseconds == 0) return "";
  const bool in_time = microseconds == 0 || entry.at("microseconds").get<double>() <= microseconds;
  return in_time && entry.at("floor_share").get<double>() >= share ? "yes" : "no";
}

std::string bench_table_text(const Json& entries) {
  std::vector<std::pair<std::string, std::vector<Json>>> groups;
  for (const Json& entry : entries) {
    const auto name = entry.at("group").get<std::string>();
    if (groups.empty() || groups.back().first != name) groups.push_back({name, {}});
    groups.back().second.push_back(entry);
  }
  const bool measured = std::any_of(entries.begin(), entries.end(), is_measured);
  std::string text;
  for (const auto& [name, group] : groups) {
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", name,
                        measured ? measured_table(group) : planned_table(group));
  }
  return text;
}

}  // namespace cubit::tools
