#include "tools/bench/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/text/error.hpp"
#include "tools/text/format.hpp"

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

bool has_decomposition(const Json& entry) { return entry.contains("decomposition"); }

/// "N=4096 K=4096 M=1, split_k"
std::string case_text(const Json& entry) {
  const auto name = entry.at("name").get<std::string>();
  return has_decomposition(entry) ? name + ", " + entry.at("decomposition").get<std::string>() : name;
}

std::vector<std::string> measured_cells(const Json& entry) {
  const auto number = [&](const char* name) { return entry.at(name).get<double>(); };
  return {fmt::format("{:.1f}", number("microseconds")), fmt::format("{:.1f}", number("floor_microseconds")),
          fmt::format("{:.0f}", number("gigabytes_per_second")), fmt::format("{:.1f}%", 100 * number("floor_share"))};
}

std::string measured_table(const std::vector<Json>& entries) {
  std::vector<std::vector<std::string>> rows;
  std::string skipped;
  const bool compared = std::any_of(entries.begin(), entries.end(), has_decomposition);
  for (const Json& entry : entries) {
    const std::string name = case_text(entry);
    const auto descriptor = entry.at("descriptor").get<std::string>();
    if (!is_measured(entry)) {
      skipped += fmt::format("{}, {}: not measured: {}\n", name, descriptor, entry.at("skipped").get<std::string>());
      continue;
    }
    std::vector<std::string> row = {name, descriptor};
    for (std::string& cell : measured_cells(entry)) row.push_back(std::move(cell));
    if (compared) row.push_back(entry.contains("speedup") ? fmt::format("{:.2f}", target(entry, "speedup")) : "");
    row.push_back(target_text(entry));
    row.push_back(target_met(entry));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return skipped;
  std::vector<Column> columns = {{"case"},       {"kernel"},         {"us", true},     {"floor us", true},
                                 {"GB/s", true}, {"of floor", true}, {"target", true}, {"met"}};
  if (compared) columns.insert(columns.end() - 2, {"speedup", true});
  return format_table(columns, rows) + skipped;
}

std::string planned_table(const std::vector<Json>& entries) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& entry : entries) {
    rows.push_back(
        {case_text(entry), entry.at("descriptor"), sizes_text(entry), target_text(entry), entry.value("skipped", "")});
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

namespace {

const Json& decompositions_of(const Json& operators, const std::string& name) {
  static const Json none = Json::array();
  for (const Json& entry : operators) {
    if (entry.at("name") == name && entry.contains("decompositions")) return entry.at("decompositions");
  }
  return none;
}

/// Of a case of the table: the descriptor with which decompositions are compared, or "".
std::string compared_descriptor(const Json& entry) {
  return entry.value("comparable", entry.at("descriptor").get<std::string>());
}

/// What makes two entries measurements of one case.
std::string case_key(const Json& entry) {
  std::string key = entry.at("group");
  key += '\n' + entry.at("name").get<std::string>();
  return key + '\n' + compared_descriptor(entry);
}

std::string with_fields(const std::string& descriptor, const std::string& fields) {
  if (fields.empty()) return descriptor;
  return descriptor + (descriptor.find(':') == std::string::npos ? ':' : ',') + fields;
}

}  // namespace

std::string first_decomposition(const Json& operators, const std::string& name) {
  const Json& all = decompositions_of(operators, name);
  return all.empty() ? "" : all.front().at("name").get<std::string>();
}

Json with_decompositions(const Json& cases, const Json& operators, const std::string& name, const std::string& wanted) {
  Json entries = Json::array();
  std::string accepted = "all";
  bool is_accepted = wanted == "all";
  for (const Json& one : decompositions_of(operators, name)) {
    const auto known = one.at("name").get<std::string>();
    accepted += ", " + known;
    is_accepted = is_accepted || wanted == known;
  }
  for (const Json& one : cases) {
    const std::string descriptor = compared_descriptor(one);
    if (descriptor.empty()) continue;
    for (const Json& decomposition : decompositions_of(operators, name)) {
      const auto known = decomposition.at("name").get<std::string>();
      if (wanted != "all" && wanted != known) continue;
      const Numbers numbers = case_sizes({{"sizes", decomposition.at("numbers")}});
      Json entry = with_sizes(Json::array({one}), numbers).front();
      entry["descriptor"] = with_fields(descriptor, decomposition.value("fields", ""));
      entry["decomposition"] = known;
      entries.push_back(std::move(entry));
    }
  }
  if (!entries.empty() || cases.empty()) return entries;
  if (accepted == "all") {
    throw BadInput("--decomposition " + wanted, name + " has one way to share its work", "leave --decomposition out");
  }
  if (is_accepted) {
    throw BadInput("--decomposition " + wanted, "none of these cases is there to compare ways to share work",
                   "choose others by --only, or leave it out");
  }
  throw BadInput("--decomposition " + wanted, name + " has no such decomposition", "accepted: " + accepted);
}

void add_speedups(Json& entries, const std::string& first) {
  std::string key;
  double microseconds = 0;
  for (Json& entry : entries) {
    if (!is_measured(entry)) continue;
    const auto own = entry.at("microseconds").get<double>();
    if (entry.at("decomposition") == first) {
      key = case_key(entry);
      microseconds = own;
    }
    if (microseconds > 0 && key == case_key(entry)) entry["speedup"] = microseconds / own;
  }
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
