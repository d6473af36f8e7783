// Formats words of reports and errors.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace cubit::ops {

/// "1 block", "2 blocks".
inline std::string counted(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace cubit::ops
