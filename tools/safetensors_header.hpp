// The JSON header of a safetensors file, read as a stream.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
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

/// What a header says beside its tensors: {"format": "pt"}, say, which some readers insist on.
using Metadata = std::map<std::string, std::string>;

/// The entries of the header `text`, checked one by one: a known type, a shape of at most kLargestRank, offsets in
/// order that span exactly the tensor's bytes, no name twice. Throws BadInput, naming `label`.
std::vector<HeaderEntry> parse_header(std::string_view text, const std::string& label, Metadata* metadata = nullptr);

/// The same in the order of their bytes, which begin at 0, leave neither holes nor overlaps and end with the file:
/// `data_bytes` follow the header. Throws BadInput.
std::vector<HeaderEntry> parse_entries(std::string_view text, std::size_t data_bytes, const std::string& label,
                                       Metadata* metadata = nullptr);

/// Of the header of a file of so many bytes that begins so (8 bytes, or fewer where it has no more). Throws BadInput
/// for a header longer than the file or than the format allows.
std::size_t header_length(std::span<const std::byte> file_start, std::size_t file_bytes, const std::string& label);

/// The length and the header, padded with spaces so that the data starts at a multiple of 8.
std::string format_header(std::span<const HeaderEntry> entries, const Metadata& metadata);

}  // namespace cubit::tools
