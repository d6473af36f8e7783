// Unsigned numbers in files, lowest byte first.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cubit::runtime {

template <class Unsigned>
void append_number(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

/// The number at `offset`, all of whose bytes must be in `bytes`.
template <class Unsigned>
Unsigned number_at(std::string_view bytes, std::size_t offset) {
  Unsigned value = 0;
  for (std::size_t i = sizeof value; i-- > 0;) {
    value = static_cast<Unsigned>((value << 8) | static_cast<unsigned char>(bytes[offset + i]));
  }
  return value;
}

}  // namespace cubit::runtime
