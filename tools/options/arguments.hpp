// The small grammars of the command line's values: lists, numbers by name, files of descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubit::tools {

/// "sm_80,sm_90a" -> its parts. Throws BadInput, naming `option`, if a part is empty.
std::vector<std::string> split_list(std::string_view text, const std::string& option);

using Numbers = std::vector<std::pair<std::string, double>>;  ///< as Problem takes them, in the order given

/// "batch=2,context=512". Accepts what the library is to judge ("nan" and "inf" too), but no number that overflows, no
/// name without a number and no name twice. Throws BadInput, naming `option`.
Numbers parse_numbers(std::string_view text, const std::string& option);

/// Sizes for made-up data, and the seed that stands among them.
struct RandomCase {
  Numbers sizes;
  std::uint64_t seed = 1;
};
/// As parse_numbers, but finite numbers only. "seed=7" is taken out; the same seed gives the same bytes.
RandomCase parse_random(std::string_view text, const std::string& option);

/// A descriptor as somebody wrote it.
struct DescriptorText {
  std::string text;
  std::string origin;  ///< "kernels.txt:3"; empty if it came from the command line
};

inline constexpr std::size_t kLongestDescriptor = 4096;  ///< bytes; no operator has fields for a tenth of it
inline constexpr std::size_t kLongestLine = 65536;       ///< bytes, with its comment
inline constexpr int kMostLines = 100'000;

/// Throws BadInput for a text that is over kLongestDescriptor. `origin` as in DescriptorText.
void require_descriptor_length(std::string_view text, const std::string& origin);

/// One descriptor per line of `path` ("-": standard input); what follows a '#' and blank lines do not count, nor does a
/// byte order mark. Throws BadInput, also for what is over the limits above.
std::vector<DescriptorText> read_descriptors(const std::string& path);

}  // namespace cubit::tools
