// Extracts ptxas's resource report (--ptxas-options=-v) from a compiler log.
//
// The log holds one section per entry function, in any order: "Compiling entry function 'k' for …", "Function
// properties for k", the stack and spill line, "Used … registers, …", and then the properties and stack line of each
// called device function that was not inlined. Lines of other tools may appear anywhere.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "runtime/compiler/nvrtc.hpp"

namespace cubit::runtime {
namespace {

/// Returns the number that ends right before `words` ("10" in "Used 10 registers"), or nothing.
std::optional<int> number_before(std::string_view line, std::string_view words) {
  const auto end = line.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  auto begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, value);
  return error == std::errc() && stop == line.data() + end ? std::optional(value) : std::nullopt;
}

std::string_view next_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

/// Returns the quoted text after `words`, or nothing if the line does not contain `words`.
std::optional<std::string_view> quoted_after(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + words.size());
  return rest.substr(0, rest.find('\''));
}

int saturating_sum(int a, int b) {
  return a > std::numeric_limits<int>::max() - b ? std::numeric_limits<int>::max() : a + b;
}

/// Adds the facts of one line of the entry point's section to `report`. Spills of called functions count as the entry's
/// own.
void take_line(std::string_view line, ResourceReport& report, bool& seen) {
  if (const auto registers = number_before(line, " registers")) {
    report.registers = *registers;
    seen = true;
  }
  if (const auto bytes = number_before(line, " bytes spill stores")) {
    report.spill_store_bytes = saturating_sum(report.spill_store_bytes, *bytes);
  }
  if (const auto bytes = number_before(line, " bytes spill loads")) {
    report.spill_load_bytes = saturating_sum(report.spill_load_bytes, *bytes);
  }
  for (const auto words : {" bytes stack frame", " bytes cumulative stack size"}) {
    report.stack_bytes = std::max(report.stack_bytes, number_before(line, words).value_or(0));
  }
  if (const auto bytes = number_before(line, " bytes smem")) report.static_shared_memory = *bytes;
  if (const auto barriers = number_before(line, " barriers")) report.barriers = *barriers;
}

/// The failure for a source that compiles but does not define the requested entry point.
Failure no_such_entry(std::string_view entry_point, const std::vector<std::string_view>& entries) {
  const std::string remedy = entries.empty()
                                 ? "the template defines no __global__ function"
                                 : fmt::format("entry points that it does define: {}", fmt::join(entries, ", "));
  return {Status::invalid_argument, fmt::format("entry point \"{}\"", entry_point),
          "the source compiles and defines no extern \"C\" __global__ function of this name", remedy};
}

}  // namespace

ResourceReport parse_resource_report(std::string_view log, std::string_view entry_point) {
  ResourceReport report;
  bool inside = false;
  bool seen = false;
  bool reported = false;
  std::vector<std::string_view> entries;
  while (!log.empty()) {
    const std::string_view line = next_line(log);
    if (!line.starts_with("ptxas")) continue;
    reported = true;
    if (const auto entry = quoted_after(line, "Compiling entry function '")) {
      entries.push_back(*entry);
      inside = *entry == entry_point;
    } else if (inside) {
      take_line(line, report, seen);
    }
  }
  const bool defined = std::find(entries.begin(), entries.end(), entry_point) != entries.end();
  if (reported && !defined) throw no_such_entry(entry_point, entries);
  if (!seen) {
    throw Failure(Status::internal, "entry point " + std::string(entry_point),
                  "the compiler's log holds no resource report for the entry point",
                  "the options must hold --ptxas-options=-v");
  }
  return report;
}

void require_entry(std::string_view ptx, std::string_view entry_point) {
  constexpr std::string_view kEntry = ".entry ";
  std::vector<std::string_view> entries;
  for (auto at = ptx.find(kEntry); at != std::string_view::npos; at = ptx.find(kEntry, at)) {
    at += kEntry.size();
    entries.push_back(ptx.substr(at, ptx.find_first_of("( \t\r\n", at) - at));
  }
  if (std::find(entries.begin(), entries.end(), entry_point) == entries.end())
    throw no_such_entry(entry_point, entries);
}

}  // namespace cubit::runtime
