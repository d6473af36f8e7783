// Finds the source places that a compiler log names, and quotes the source around them.
#include "runtime/compiler/compile_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace cubit::runtime {
namespace {

constexpr int kLinesAround = 2;
constexpr std::size_t kMostPlaces = 5;  ///< number of quoted places
constexpr std::size_t kMostLines = 60;  ///< quoted lines of a log; one missing brace can cause hundreds of errors

struct Place {
  std::string_view file;
  int line = 0;
  bool operator==(const Place&) const = default;
};

/// Parses "name(12): error …", "name(12): error #20-D: …" or "name(12): catastrophic error …".
std::optional<Place> place_of(std::string_view log_line) {
  const auto close = std::min(log_line.find("): error"), log_line.find("): catastrophic error"));
  if (close == std::string_view::npos) return std::nullopt;
  const auto open = log_line.rfind('(', close);
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  int line = 0;
  const auto [stop, error] = std::from_chars(log_line.data() + open + 1, log_line.data() + close, line);
  if (error != std::errc() || stop != log_line.data() + close) return std::nullopt;
  return Place{log_line.substr(0, open), line};
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

/// The compiler calls the template "/cubit/<name>" and a header by its bare name.
const std::string* text_of(const codegen::KernelSource& source, std::string_view file) {
  for (const codegen::Header& header : source.headers) {
    if (header.name == file) return &header.text;
  }
  return file == "/cubit/" + source.template_name || file == source.template_name ? &source.template_text : nullptr;
}

std::string excerpt(const Place& place, std::string_view text) {
  const auto lines = split_lines(text);
  const int count = static_cast<int>(lines.size());
  if (place.line < 1 || place.line > count) return {};
  const int last = std::min(count, place.line + kLinesAround);
  std::string result = fmt::format("{}:\n", place.file);
  for (int number = std::max(1, place.line - kLinesAround); number <= last; ++number) {
    result += fmt::format("{} {:>5} | {}\n", number == place.line ? '>' : ' ', number, lines[number - 1]);
  }
  return result;
}

}  // namespace

std::string source_excerpts(const codegen::KernelSource& source, std::string_view log) {
  std::vector<Place> quoted;
  std::string result;
  for (const std::string_view log_line : split_lines(log)) {
    const auto place = place_of(log_line);
    if (quoted.size() == kMostPlaces) break;
    if (!place || std::find(quoted.begin(), quoted.end(), *place) != quoted.end()) continue;
    quoted.push_back(*place);
    if (const std::string* text = text_of(source, place->file)) result += excerpt(*place, *text);
  }
  return result;
}

/// The first kMostLines lines of a log.
static std::string beginning(std::string_view log) {
  const std::vector<std::string_view> lines = split_lines(log);
  if (lines.size() <= kMostLines) return std::string(log);
  const auto shown = static_cast<std::size_t>(lines[kMostLines].data() - log.data());
  return fmt::format("{}… {} lines more\n", log.substr(0, shown), lines.size() - kMostLines);
}

Failure compile_failure(const codegen::KernelSource& source, std::string_view compiler, std::string_view reason,
                        std::string_view log) {
  std::string rule = fmt::format("{} rejected the source ({})", compiler, reason);
  if (!log.empty()) rule += fmt::format("\n{}", beginning(log));
  if (const std::string excerpts = source_excerpts(source, log); !excerpts.empty()) {
    rule += fmt::format("{}the source there:\n{}", rule.ends_with('\n') ? "" : "\n", excerpts);
  }
  return {Status::compile_failed, fmt::format("{} for {}", source.descriptor, source.target), std::move(rule)};
}

}  // namespace cubit::runtime
