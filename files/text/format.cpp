#include "files/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

void widen(std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i].width = std::max(columns[i].width, printable(row.at(i)).size());
  }
}

}  // namespace

std::string format_row(const std::vector<Column>& columns, const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t width = std::max(columns[i].width, columns[i].title.size());
    if (i > 0) line += "  ";
    line += columns[i].number ? fmt::format("{:>{}}", printable(cells.at(i)), width)
                              : fmt::format("{:<{}}", printable(cells.at(i)), width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string format_titles(const std::vector<Column>& columns) {
  std::vector<std::string> titles;
  for (const Column& column : columns) titles.push_back(column.title);
  return format_row(columns, titles);
}

std::string format_table(std::vector<Column> columns, const std::vector<std::vector<std::string>>& rows) {
  widen(columns, rows);
  std::string table = format_titles(columns);
  for (const auto& row : rows) table += format_row(columns, row);
  return table;
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 4> kUnits = {"bytes", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  const long long whole = std::llround(seconds);
  if (whole < 100) return fmt::format("{} s", whole);
  const long long minutes = (whole + 30) / 60;
  if (minutes < 100) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string time_left(double elapsed, std::size_t done, std::size_t left) {
  if (done == 0) return {};
  return format_seconds(elapsed / static_cast<double>(done) * static_cast<double>(left)) + " left, ";
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace cubit::tools
