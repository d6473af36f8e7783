// Parses a safetensors file in memory with the functions that the readers of files use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/safetensors/header.hpp"
#include "files/safetensors/safetensors.hpp"

namespace cubit::tools::test {

/// Views into `file` of tensors that operators can take. Throws a BadInput that names `label`.
inline std::vector<TensorView> parse_safetensors(std::span<const std::byte> file, const std::string& label) {
  const std::size_t length = header_length(file.first(std::min(file.size(), kLengthBytes)), file.size(), label);
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + length);
  std::vector<TensorView> tensors;
  for (const HeaderEntry& entry : parse_entries(header, data.size(), label)) {
    require_usable(entry, label);
    tensors.push_back({entry.name, entry.type, entry.shape, data.subspan(entry.offsets[0], bytes_of(entry))});
  }
  return tensors;
}

}  // namespace cubit::tools::test
