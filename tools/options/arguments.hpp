// Parsers of option values: lists, named numbers, and files of descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubit::tools {

/// Splits "sm_80,sm_90a" at the commas. Throws a BadInput that names `option` if a part is empty.
std::vector<std::string> split_list(std::string_view text, const std::string& option);

using Numbers = std::vector<std::pair<std::string, double>>;  ///< in the form that Problem takes, in the order given

/// Parses "batch=2,context=512". Values that the library judges are accepted, "nan" and "inf" too. Throws a BadInput
/// that names `option` for a number that overflows, a name without a number, and a name that appears twice.
Numbers parse_numbers(std::string_view text, const std::string& option);

/// Sizes of made-up data, and the seed given among the sizes.
struct RandomCase {
  Numbers sizes;
  std::uint64_t seed = 1;
};
/// Like parse_numbers, but accepts only finite numbers. "seed=7" becomes the seed; the same seed gives the same bytes.
RandomCase parse_random(std::string_view text, const std::string& option);

/// A descriptor as the user wrote it.
struct DescriptorText {
  std::string text;
  std::string origin;  ///< "kernels.txt:3"; empty for a descriptor of the command line
};

inline constexpr std::size_t kLongestDescriptor =
    4096;  ///< bytes; the longest descriptor of any operator is below a tenth of this
inline constexpr std::size_t kLongestLine = 65536;  ///< bytes, including the comment
inline constexpr int kMostListLines = 100'000;

/// Throws BadInput if the text is longer than kLongestDescriptor. For `origin` see DescriptorText.
void require_descriptor_length(std::string_view text, const std::string& origin);

/// Reads one descriptor per line of `path` ("-": standard input). Blank lines, comments that start with '#', and a byte
/// order mark are skipped. Throws BadInput, also if a limit above is exceeded.
std::vector<DescriptorText> read_descriptors(const std::string& path);

}  // namespace cubit::tools
