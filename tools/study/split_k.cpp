#include "tools/study/split_k.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/options/arguments.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kGroup = 128;  // input features that share a scale
constexpr int kMostRows = 1024;
constexpr int kMostSize = 1 << 16;
constexpr int kMostSplits = 256;

/// Whole numbers from `least` to `most` that are multiples of `unit`.
std::vector<int> parse_whole(const std::string& text, const std::string& option, int unit, int most,
                             const std::string& rule) {
  std::vector<int> values;
  for (const std::string& part : split_list(text, option)) {
    int value = 0;
    const char* const last = part.data() + part.size();
    const auto [end, error] = std::from_chars(part.data(), last, value);
    const bool is_accepted = error == std::errc{} && end == last && value >= unit && value <= most && value % unit == 0;
    if (!is_accepted) {
      const std::string multiples = unit == 1 ? "" : fmt::format("multiples of {} ", unit);
      throw BadInput(fmt::format("{} {}", option, quote(part)), rule,
                     fmt::format("accepted: {}from {} to {}, separated by commas", multiples, unit, most));
    }
    if (std::find(values.begin(), values.end(), value) != values.end())
      throw BadInput(fmt::format("{} {}", option, quote(part)), "is given twice", "give each number once");
    values.push_back(value);
  }
  return values;
}

/// The smallest tile that holds the rows, up to 64, in blocks of 256 columns: these blocks allow every decomposition.
std::string descriptor_of(int rows) {
  constexpr int kMostTile = 64;
  int tile = 8;
  while (tile < rows && tile < kMostTile) tile *= 2;
  return fmt::format("w4a16_gemm:tile_m={},tile_n=256", tile);
}

/// Numbers of cubit_w4a16_decomposition.
struct Choice {
  const char* name;
  int decomposition;
  bool has_factor;
};
constexpr Choice kChoices[] = {{kDataParallel, 1, false},
                               {"split_k", 2, true},
                               {"split_k_atomic", 4, true},
                               {"stream_k", 3, false},
                               {kAutomatic, 0, false}};

Json entry_of(int rows, int size, const Choice& choice, int splits) {
  const bool is_atomic = std::string_view(choice.name) == "split_k_atomic";
  const bool is_automatic = std::string_view(choice.name) == kAutomatic;
  const std::string tiled = descriptor_of(rows);
  Json entry = {{"group", fmt::format("n = k = {}", size)},
                {"name", fmt::format("M={}", rows)},
                {"descriptor", is_automatic ? "w4a16_gemm" : tiled + (is_atomic ? ",atomic_splits=true" : "")},
                {"comparable", tiled},
                {"sizes", {{"m", rows}, {"n", size}, {"k", size}, {"decomposition", choice.decomposition}}},
                {"decomposition", choice.name},
                {"splits", nullptr}};
  if (choice.has_factor) entry["splits"] = entry["sizes"]["splits"] = splits;
  return entry;
}

std::string choice_text(const Json& entry) {
  const auto name = entry.at("decomposition").get<std::string>();
  return entry.at("splits").is_null() ? name : fmt::format("{} {}", name, entry.at("splits").get<int>());
}

/// A number that may be null, as registers are on the CPU device.
std::string cell(const Json& entry, const char* name, const char* format, double unit = 1) {
  const Json& value = entry.at(name);
  return value.is_null() ? "" : fmt::format(fmt::runtime(format), value.get<double>() / unit);
}

}  // namespace

std::vector<int> parse_rows(const std::string& text) {
  return parse_whole(text, "--rows", 1, kMostRows, "is no number of rows M");
}

std::vector<int> parse_sizes(const std::string& text) {
  return parse_whole(text, "--sizes", kGroup, kMostSize, "is no size n = k of whole groups");
}

std::vector<int> parse_splits(const std::string& text) {
  return parse_whole(text, "--splits", 1, kMostSplits, "is no split-K factor");
}

Json split_k_entries(const SplitKStudy& study) {
  Json entries = Json::array();
  for (const int size : study.sizes) {
    for (const int rows : study.rows) {
      for (const Choice& choice : kChoices) {
        const std::vector<int> once = {0};
        for (const int splits : choice.has_factor ? study.splits : once)
          entries.push_back(entry_of(rows, size, choice, splits));
      }
    }
  }
  return entries;
}

void add_kernel_and_launch(Json& entry, const Json& kernel, const Json& launch) {
  constexpr double kTera = 1e12;
  constexpr double kMicro = 1e-6;
  const Json& fixed = kernel.at("static_shared_memory");
  const int dynamic = launch.at("dynamic_shared_memory");
  entry["teraflops"] = entry.at("operations").get<double>() / (kMicro * entry.at("microseconds").get<double>()) / kTera;
  entry["registers"] = kernel.at("registers");
  entry["shared_memory"] = dynamic + (fixed.is_null() ? 0 : fixed.get<int>());
  for (const char* name :
       {"threads", "grid", "blocks", "cluster_blocks", "workspace_bytes", "blocks_per_sm", "occupancy"})
    entry[name] = launch.at(name);
}

SplitKRows::SplitKRows()
    : columns_{{"case", false, 6}, {"decomposition", false, 18}, {"us", true, 7},     {"TFLOP/s", true, 7},
               {"speedup", true},  {"of floor", true},           {"registers", true}, {"shared KiB", true},
               {"blocks", true},   {"blocks/SM", true},          {"occupancy", true}} {}

std::string SplitKRows::next(const Json& entry) {
  std::string text;
  const auto group = entry.at("group").get<std::string>();
  if (group != group_) {
    text = fmt::format("{}{}\n{}", group_.empty() ? "" : "\n", group, format_titles(columns_));
    group_ = group;
  }
  const std::string choice = choice_text(entry);
  if (!entry.contains("microseconds")) {
    return text + fmt::format("{}, {}: not measured: {}\n", entry.at("name").get<std::string>(), choice,
                              entry.at("skipped").get<std::string>());
  }
  constexpr double kKibi = 1024;
  constexpr double kPercent = 0.01;
  return text +
         format_row(columns_, {entry.at("name"), choice, cell(entry, "microseconds", "{:.2f}"),
                               cell(entry, "teraflops", "{:.2f}"),
                               entry.contains("speedup") ? cell(entry, "speedup", "{:.2f}") : "",
                               cell(entry, "floor_share", "{:.0f}%", kPercent), cell(entry, "registers", "{}"),
                               cell(entry, "shared_memory", "{:.1f}", kKibi), cell(entry, "blocks", "{}"),
                               cell(entry, "blocks_per_sm", "{}"), cell(entry, "occupancy", "{:.0f}%", kPercent)});
}

std::string split_k_plan(const Json& entries) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& entry : entries)
    rows.push_back({entry.at("group"), entry.at("name"), choice_text(entry), entry.at("descriptor")});
  return format_table({{"size"}, {"rows"}, {"decomposition"}, {"kernel"}}, rows);
}

}  // namespace cubit::tools
