// Checks names that go into generated code.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace cubit::codegen {

/// True for letters, digits and underscores that do not start with a digit.
constexpr bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

/// Throws Failure(internal) unless `name` is an identifier. `what` says in the message what the name is for.
inline void check_identifier(std::string_view name, std::string_view what) {
  if (is_identifier(name)) return;
  throw Failure(Status::internal, std::string(what) + " \"" + std::string(name) + "\"", "not a C++ identifier");
}

}  // namespace cubit::codegen
