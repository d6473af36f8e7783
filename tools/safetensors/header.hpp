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

inline constexpr std::size_t kLengthBytes = 8;  ///< before the header, which they measure

struct HeaderEntry {
  std::string name;
  std::string type;  ///< "BF16"; maybe one that cubit::type_bytes does not know
  std::vector<std::int64_t> shape;
  std::array<std::uint64_t, 2> offsets{};
};

inline std::uint64_t bytes_of(const HeaderEntry& entry) { return entry.offsets[1] - entry.offsets[0]; }

/// What a header says beside its tensors: {"format": "pt"}, say, which some readers insist on.
using Metadata = std::map<std::string, std::string>;

/// The entries of the header `text`, checked one by one: offsets in order that span exactly the tensor's bytes, where
/// its type is known, and no name twice. Throws BadInput, naming `label`.
std::vector<HeaderEntry> parse_header(std::string_view text, const std::string& label, Metadata* metadata = nullptr);

/// The same in the order of their bytes, which begin at 0, leave neither holes nor overlaps and end with the file:
/// `data_bytes` follow the header. Throws BadInput.
std::vector<HeaderEntry> parse_entries(std::string_view text, std::size_t data_bytes, const std::string& label,
                                       Metadata* metadata = nullptr);

/// Throws BadInput for a tensor of a type that cubit::type_bytes does not know, or of a rank over kLargestRank: such
/// ones may be copied, but not computed with.
void require_usable(const HeaderEntry& tensor, const std::string& label);

/// Of the header of a file of so many bytes that begins so (8 bytes, or fewer where it has no more). Throws BadInput
/// for a header longer than the file or than the format allows.
std::size_t header_length(std::span<const std::byte> file_start, std::size_t file_bytes, const std::string& label);

/// The length and the header, padded with spaces so that the data starts at a multiple of 8.
std::string format_header(std::span<const HeaderEntry> entries, const Metadata& metadata);

}  // namespace cubit::tools
