// The JSON header of a safetensors file, read as a stream.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::tools {

struct HeaderEntry {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::array<std::uint64_t, 2> offsets{};
};

/// The entries of the header `text`, checked one by one: a known type, a shape of at most kLargestRank, offsets in
/// order that span exactly the tensor's bytes, no name twice. Throws BadInput, naming `label`.
std::vector<HeaderEntry> parse_header(std::string_view text, const std::string& label);

}  // namespace cubit::tools
