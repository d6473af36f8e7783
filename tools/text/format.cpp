#include "tools/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/text/quote.hpp"

namespace cubit::tools {
namespace {

std::vector<std::size_t> column_widths(const std::vector<Column>& columns,
                                       const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::size_t width = columns[i].title.size();
    for (const auto& row : rows) width = std::max(width, row.at(i).size());
    widths.push_back(width);
  }
  return widths;
}

std::string format_row(const std::vector<Column>& columns, const std::vector<std::size_t>& widths,
                       const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) line += "  ";
    line += columns[i].number ? fmt::format("{:>{}}", cells[i], widths[i]) : fmt::format("{:<{}}", cells[i], widths[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string format_table(const std::vector<Column>& columns, std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows)
    std::transform(row.begin(), row.end(), row.begin(), [](auto& cell) { return printable(cell); });
  const std::vector<std::size_t> widths = column_widths(columns, rows);
  std::vector<std::string> titles;
  for (const Column& column : columns) titles.push_back(column.title);
  std::string table = format_row(columns, widths, titles);
  for (const auto& row : rows) table += format_row(columns, widths, row);
  return table;
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 4> kUnits = {"bytes", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace cubit::tools
