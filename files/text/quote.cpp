#include "files/text/quote.hpp"

#include <fmt/format.h>

#include "files/text/format.hpp"

namespace cubit::tools {

std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  return fmt::format("{}… ({})", text.substr(0, escaping::whole_characters(text, limit)),
                     format_bytes(static_cast<double>(text.size())));
}

}  // namespace cubit::tools
