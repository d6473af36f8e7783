#include "tools/pictures/plan_pictures.hpp"

#include <fmt/format.h>

namespace cubit::tools {
namespace {

/// Turns a name into a part of a file name: letters, digits and dots stay, and each run of other characters becomes one
/// '-'.
std::string file_part(std::string_view name) {
  std::string part;
  for (const char character : name) {
    const bool plain = (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') ||
                       (character >= 'A' && character <= 'Z') || character == '.';
    if (plain) {
      part += character;
    } else if (!part.empty() && part.back() != '-') {
      part += '-';
    }
  }
  while (!part.empty() && part.back() == '-') part.pop_back();
  return part;
}

/// The text before the colon: "stage: 16 rows of keys …" is the tile "stage".
std::string_view short_name(std::string_view name) { return name.substr(0, name.find(':')); }

}  // namespace

std::vector<Picture> plan_pictures(const nlohmann::json& layouts, const std::string& subject) {
  std::vector<Picture> pictures;
  for (const auto& fragment : layouts.at("fragments")) {
    const auto name = fragment.at("name").get<std::string>();
    pictures.push_back({fmt::format("fragment-{}.svg", file_part(name)), fragment_picture(fragment)});
  }
  for (const auto& tile : layouts.at("tiles")) {
    const auto name = tile.at("name").get<std::string>();
    pictures.push_back({fmt::format("tile-{}.svg", file_part(short_name(name))), tile_picture(tile, subject)});
  }
  if (!layouts.at("memory").at("regions").empty()) {
    pictures.push_back({"shared-memory.svg", memory_picture(layouts.at("memory"), subject)});
  }
  return pictures;
}

}  // namespace cubit::tools
