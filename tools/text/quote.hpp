// A stranger's text in a message.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cubit::tools {

inline constexpr std::size_t kLongestEcho = 200;

/// In quotes, short, and with everything escaped that a terminal would act on.
inline std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  const bool cut = text.size() > kLongest;
  const nlohmann::json value = std::string(text.substr(0, kLongest)) + (cut ? "..." : "");
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// The first bytes of a text that is longer than `limit`, and how long it was: "aaa… (10.0 MiB)".
std::string shortened(std::string_view text, std::size_t limit = kLongestEcho);

/// Whether a text may have several lines, as a compiler's log has.
enum class Lines { one, many };

/// `text` with everything escaped that a terminal would act on: control characters and what is not UTF-8.
std::string printable(std::string_view text, Lines lines = Lines::one);

}  // namespace cubit::tools
