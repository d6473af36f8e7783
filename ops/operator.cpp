#include "ops/operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "ops/fields.hpp"

namespace cubit::ops {

std::string Operator::suggest(std::string_view text, const Numbers& sizes,
                              const runtime::DeviceFacts& /*device*/) const {
  std::string same = canonical(text);
  if (sizes.empty()) return same;
  throw Failure(Status::invalid_argument, fmt::format("size {}", sizes.begin()->first),
                fmt::format("no field of {} is chosen by sizes", name()), "give none");
}

std::vector<std::string> Operator::members(std::string_view text, const codegen::Architecture& /*architecture*/) const {
  return {canonical(text)};
}

std::shared_ptr<const MemberChoice> Operator::choice(std::string_view /*text*/,
                                                     const codegen::Architecture& /*architecture*/) const {
  return nullptr;
}

void add_tile(PlanReport& report, Tile tile) {
  for (auto& proof : codegen::prove(tile.layout, tile.accesses)) report.proofs.push_back(std::move(proof));
  report.tiles.push_back(std::move(tile));
}

std::vector<std::pair<std::string_view, std::string_view>> split_fields(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  constexpr std::size_t kLongest = 4096;
  if (text.size() > kLongest) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}…\"", text.substr(0, 40)),
                  fmt::format("it has {} characters", text.size()), fmt::format("accepted: up to {}", kLongest));
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return fields;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
      throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                    fmt::format("\"{}\" is not a field=value pair", item),
                    "write name:field=value,field=value without spaces");
    }
    const std::string_view name = item.substr(0, equals);
    for (const auto& [earlier, value] : fields) {
      if (earlier == name) {
        throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                      fmt::format("the field {} is given twice", name), "give each field once");
      }
    }
    fields.emplace_back(name, item.substr(equals + 1));
    if (comma == std::string_view::npos) return fields;
    rest = rest.substr(comma + 1);
  }
}

bool gives_field(std::string_view text, std::string_view name) {
  const auto fields = split_fields(text);
  return std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.first == name; });
}

bool parse_int(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

void reject_field(std::string_view text, std::string_view field, std::string_view accepted) {
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                fmt::format("{} has no field {}", text.substr(0, text.find(':')), field),
                fmt::format("accepted fields: {}", accepted));
}

void reject_value(std::string_view text, std::string_view field, std::string_view value, std::string_view accepted) {
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                fmt::format("{} is not a value of {}", value, field), fmt::format("accepted: {}", accepted));
}

}  // namespace cubit::ops
