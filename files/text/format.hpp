// Tables, quantities and JSON as the command line prints them.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cubit::tools {

struct Column {
  std::string title;
  bool number = false;    ///< numbers are aligned to the right
  std::size_t width = 0;  ///< least width; the title may need more
};

/// Each column is as wide as its widest cell. Two spaces separate columns, and a newline ends every line. Cells are
/// escaped (see printable). Columns align only if the cells are ASCII.
std::string format_table(std::vector<Column> columns, const std::vector<std::vector<std::string>>& rows);

/// One line of a table that is printed row by row: the titles, or the cells of a row. The columns' widths are given
/// beforehand; a longer cell shifts the rest of its line.
std::string format_titles(const std::vector<Column>& columns);
std::string format_row(const std::vector<Column>& columns, const std::vector<std::string>& cells);

/// "45.2 KiB"
std::string format_bytes(double bytes);

/// "8 s", "3 min", "2 h 10 min"
std::string format_seconds(double seconds);

/// "3 min left, " for `left` further items of which `done` took `elapsed` seconds; "" before the first item.
std::string time_left(double elapsed, std::size_t done, std::size_t left);

/// JSON as the command line prints it and writes it to files: indented by two spaces. No newline ends the text.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace cubit::tools
