// Tables and quantities for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cubit::tools {

struct Column {
  std::string title;
  bool number = false;  ///< numbers are set flush right
};

/// Columns as wide as their widest cell, two spaces apart; every line ends in a newline. Cells are escaped
/// (see printable), and of ASCII if columns are to align.
std::string format_table(const std::vector<Column>& columns, std::vector<std::vector<std::string>> rows);

/// "45.2 KiB"
std::string format_bytes(double bytes);

}  // namespace cubit::tools
