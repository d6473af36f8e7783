#include "tools/bench/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "files/text/error.hpp"
#include "files/text/format.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTargetDevice = "NVIDIA H200";  // the device whose microseconds cubit_operators states as targets

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

/// The columns of the group `name`, wide enough for all of its entries.
std::vector<Column> measured_columns(const Json& cases, const std::string& name) {
  constexpr std::size_t kMicroseconds = 9;  // "1234567.8"
  std::size_t case_width = 0;
  std::size_t kernel_width = 0;
  std::size_t target_width = 0;
  bool compared = false;
  for (const Json& entry : cases) {
    if (entry.at("group") != name) continue;
    case_width = std::max(case_width, case_text(entry).size());
    kernel_width = std::max(kernel_width, entry.at("descriptor").get<std::string>().size());
    target_width = std::max(target_width, target_text(entry).size());
    compared = compared || has_decomposition(entry);
  }
  std::vector<Column> columns = {{"case", false, case_width},
                                 {"kernel", false, kernel_width},
                                 {"us", true, kMicroseconds},
                                 {"floor us", true, kMicroseconds},
                                 {"GB/s", true},
                                 {"of floor", true},
                                 {"target", true, target_width},
                                 {"met"}};
  if (compared) columns.insert(columns.end() - 2, {"speedup", true});
  return columns;
}

std::vector<std::string> measured_row(const Json& entry, bool compared) {
  std::vector<std::string> row = {case_text(entry), entry.at("descriptor").get<std::string>()};
  for (std::string& cell : measured_cells(entry)) row.push_back(std::move(cell));
  if (compared) row.push_back(entry.contains("speedup") ? fmt::format("{:.2f}", target(entry, "speedup")) : "");
  row.push_back(target_text(entry));
  row.push_back(target_met(entry));
  return row;
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

/// The descriptor that `entry` is compared with in decompositions; "" if the case takes no part in comparisons.
std::string compared_descriptor(const Json& entry) {
  return entry.value("comparable", entry.at("descriptor").get<std::string>());
}

/// Entries with the same key measure the same case.
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
    throw BadInput("--decomposition " + wanted, name + " has only one decomposition", "leave --decomposition out");
  }
  if (is_accepted) {
    throw BadInput("--decomposition " + wanted, "none of these cases compares decompositions",
                   "select other cases with --only, or leave --decomposition out");
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

Json published_entries(Json entries, const std::string& first) {
  if (!first.empty()) add_speedups(entries, first);
  for (Json& entry : entries) entry.erase("comparable");
  return entries;
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

std::string BenchTableRows::next(const Json& entry) {
  std::string text;
  const auto group = entry.at("group").get<std::string>();
  if (!begun_ || group != group_) {
    text = fmt::format("{}{}\n", begun_ ? "\n" : "", group);
    group_ = group;
    columns_.clear();
    begun_ = true;
  }
  if (!is_measured(entry)) {
    return text + fmt::format("{}, {}: not measured: {}\n", case_text(entry), entry.at("descriptor").get<std::string>(),
                              entry.at("skipped").get<std::string>());
  }
  if (columns_.empty()) {
    columns_ = measured_columns(cases_, group);
    text += format_titles(columns_);
  }
  constexpr std::size_t kWithoutSpeedup = 8;
  return text + format_row(columns_, measured_row(entry, columns_.size() > kWithoutSpeedup));
}

namespace {

std::string planned_tables(const Json& entries) {
  std::vector<std::pair<std::string, std::vector<Json>>> groups;
  for (const Json& entry : entries) {
    const auto name = entry.at("group").get<std::string>();
    if (groups.empty() || groups.back().first != name) groups.push_back({name, {}});
    groups.back().second.push_back(entry);
  }
  std::string text;
  for (const auto& [name, group] : groups)
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", name, planned_table(group));
  return text;
}

}  // namespace

std::string bench_table_text(const Json& entries) {
  if (std::none_of(entries.begin(), entries.end(), is_measured)) return planned_tables(entries);
  BenchTableRows rows(entries);
  std::string text;
  for (const Json& entry : entries) text += rows.next(entry);
  return text;
}

}  // namespace cubit::tools
