// Parses JSON texts of strangers.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace cubit::tools {

/// The value of a text, or a discarded value if the text is not valid JSON or nests deeper than 100 levels. Copying and
/// writing a value descend recursively, so a deeper text could exhaust the stack.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  constexpr int kDeepest = 100;
  bool is_deep = false;
  const auto is_kept = [&](int depth, nlohmann::detail::parse_event_t, Json&) {
    is_deep = is_deep || depth > kDeepest;
    return !is_deep;
  };
  Json json = Json::parse(text, is_kept, false);
  return is_deep ? Json(nlohmann::detail::value_t::discarded) : json;
}

}  // namespace cubit::tools
