#include "tools/bench/results.hpp"

#include <fmt/format.h>

#include <cmath>

#include "files/output_file.hpp"
#include "files/text/format.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

/// "1:05", or "2:00:07" from one hour on.
std::string duration_text(double seconds) {
  const auto whole = std::llround(seconds);
  const long long hours = whole / 3600;
  const long long minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

/// `text` with `margin` after every newline. JSON strings hold no raw newline, so only the layout changes.
std::string indented(const std::string& text, const char* margin) {
  std::string result = margin;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += margin;
  }
  return result;
}

}  // namespace

ResultsFile::ResultsFile(const std::string& path) : path_(OutputFile(path).path()) {}

void ResultsFile::replace(std::string_view content) const { OutputFile(path_).commit_text(content); }

bool measure_cases(const Json& cases, const CaseSteps& steps) {
  Json entries = Json::array();
  bool good = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    steps.announce(i);
    Json one = cases[i];
    good = steps.measure(one) && good;
    entries.push_back(std::move(one));
    steps.publish(entries);
  }
  return good;
}

std::string JsonArrayText::next(const Json& entry) {
  const char* before = empty_ ? "[\n" : ",\n";
  empty_ = false;
  return before + indented(json_text(entry), "  ");
}

std::string JsonArrayText::end() const { return empty_ ? "[]" : "\n]"; }

std::string progress_text(std::size_t index, std::size_t total, double elapsed_seconds, std::string_view name) {
  std::string text = fmt::format("case {} of {}", index + 1, total);
  if (index > 0) {
    const double left = elapsed_seconds / static_cast<double>(index) * static_cast<double>(total - index);
    text += fmt::format(", {} elapsed, about {} left", duration_text(elapsed_seconds), duration_text(left));
  }
  return fmt::format("{}: {}", text, name);
}

}  // namespace cubit::tools
