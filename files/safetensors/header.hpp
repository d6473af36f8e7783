// Reads the JSON header of a safetensors file as a stream of events.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::tools {

inline constexpr std::size_t kLengthBytes = 8;  ///< size of the header's length, which precedes the header

struct HeaderEntry {
  std::string name;
  std::string type;  ///< "BF16"; may be a type that cubit::type_bytes does not know
  std::vector<std::int64_t> shape;
  std::array<std::uint64_t, 2> offsets{};
};

inline std::uint64_t bytes_of(const HeaderEntry& entry) { return entry.offsets[1] - entry.offsets[0]; }

/// The entries of "__metadata__", for example {"format": "pt"}, which some readers require.
using Metadata = std::map<std::string, std::string>;

/// The entries of the header `text`, each checked by itself: the offsets span exactly the tensor's bytes, if the type
/// is known, and no name appears twice. Throws a BadInput that names `label`.
std::vector<HeaderEntry> parse_header(std::string_view text, const std::string& label, Metadata* metadata = nullptr);

/// The same entries in the order of their bytes. Checks also that the bytes begin at 0, leave neither holes nor
/// overlaps, and end with the file: `data_bytes` follow the header. Throws BadInput.
std::vector<HeaderEntry> parse_entries(std::string_view text, std::size_t data_bytes, const std::string& label,
                                       Metadata* metadata = nullptr);

/// Throws BadInput if cubit::type_bytes does not know the tensor's type, or if the rank exceeds kLargestRank. Such
/// tensors may be copied, but no operator takes them.
void require_usable(const HeaderEntry& tensor, const std::string& label);

/// The length of the header. `file_start` holds the first 8 bytes of the file, or fewer if the file is shorter. Throws
/// BadInput for a header that is longer than the file or than the format allows.
std::size_t header_length(std::span<const std::byte> file_start, std::size_t file_bytes, const std::string& label);

/// The length and the header as bytes. Spaces pad the header so that the data starts at a multiple of 8.
std::string format_header(std::span<const HeaderEntry> entries, const Metadata& metadata);

}  // namespace cubit::tools
