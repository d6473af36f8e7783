// Writes plan.cuh as text. Lines keep the order of the calls, and the text depends on the calls alone.
#include "codegen/plan_header.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "codegen/identifier.hpp"

namespace cubit::codegen {
namespace {

/// Throws unless the text stays on its line: a control character would end the line, and a final backslash would join
/// the next line.
void check_line(std::string_view text, std::string_view what) {
  bool printable = text.empty() || text.back() != '\\';
  for (const char c : text) printable = printable && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  if (!printable) {
    throw Failure(Status::internal, fmt::format("{} \"{}\"", what, text), "not one printable line");
  }
}

std::string constant_line(std::string_view name, std::int64_t value) {
  using Int = std::numeric_limits<int>;
  if (value >= Int::min() && value <= Int::max()) return fmt::format("constexpr int {} = {};", name, value);
  // C++ has no literal for the least 64-bit number, because the minus sign is applied to a literal that is too large by
  // one.
  if (value == std::numeric_limits<std::int64_t>::min()) {
    return fmt::format("constexpr long long {} = {}LL - 1;", name, value + 1);
  }
  return fmt::format("constexpr long long {} = {}LL;", name, value);
}

/// Converts "key_tile" to "KeyTile".
std::string pascal(std::string_view snake) {
  std::string result;
  bool start = true;
  for (const char c : snake) {
    if (c == '_') {
      start = true;
      continue;
    }
    result += start && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    start = false;
  }
  return result;
}

}  // namespace

PlanHeader::PlanHeader(std::string_view descriptor) : descriptor_(descriptor) { check_line(descriptor, "descriptor"); }

PlanHeader& PlanHeader::include(std::string_view header) {
  check_line(header, "header");
  if (header.empty() || header.find('"') != std::string_view::npos) {
    throw Failure(Status::internal, fmt::format("header \"{}\"", header), "not a name for #include");
  }
  includes_.push_back(fmt::format("#include \"{}\"", header));
  return *this;
}

PlanHeader& PlanHeader::constant(std::string_view name, std::int64_t value) {
  check_identifier(name, "constant");
  lines_.push_back(constant_line(name, value));
  return *this;
}

PlanHeader& PlanHeader::flag(std::string_view name, bool value) {
  check_identifier(name, "flag");
  lines_.push_back(fmt::format("constexpr bool {} = {};", name, value));
  return *this;
}

PlanHeader& PlanHeader::alias(std::string_view name, std::string_view type) {
  check_identifier(name, "alias");
  check_line(type, "type");
  lines_.push_back(fmt::format("using {} = {};", name, type));
  return *this;
}

PlanHeader& PlanHeader::layout(std::string_view name, const TileLayout& layout) {
  std::string function = layout_function(std::string(name), layout);
  function.pop_back();  // text() ends every line itself
  constant("k" + pascal(name) + "Pitch", layout.pitch);
  constant("k" + pascal(name) + "Bytes", layout.size());
  lines_.push_back(std::move(function));
  return *this;
}

std::string PlanHeader::text() const {
  std::string text = fmt::format("// {}\n#pragma once\n", descriptor_);
  if (!includes_.empty()) text += "\n";
  for (const std::string& line : includes_) text += line + "\n";
  text += "\nnamespace plan {\n\n";
  for (const std::string& line : lines_) text += line + "\n";
  text += "\n}  // namespace plan\n";
  return text;
}

}  // namespace cubit::codegen
