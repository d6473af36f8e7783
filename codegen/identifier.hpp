// Names that go into generated code.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace cubit::codegen {

/// Letters, digits and underscores, not starting with a digit.
constexpr bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

/// Throws Failure(internal) unless `name`, that of a `what`, is an identifier.
inline void check_identifier(std::string_view name, std::string_view what) {
  if (is_identifier(name)) return;
  throw Failure(Status::internal, std::string(what) + " \"" + std::string(name) + "\"", "not a C++ identifier");
}

}  // namespace cubit::codegen
