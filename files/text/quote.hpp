// Makes foreign text safe to print in a message.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/printable.hpp"

namespace cubit::tools {

inline constexpr std::size_t kLongestEcho = 200;

/// The text in quotes, shortened, with every character escaped that a terminal would act on.
inline std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  const bool cut = text.size() > kLongest;
  const nlohmann::json value = std::string(text.substr(0, kLongest)) + (cut ? "..." : "");
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// If `text` is longer than `limit`: its first bytes and its full size, as in "aaa… (10.0 MiB)". Else `text` itself.
std::string shortened(std::string_view text, std::size_t limit = kLongestEcho);

using cubit::Lines;
using cubit::printable;

}  // namespace cubit::tools
