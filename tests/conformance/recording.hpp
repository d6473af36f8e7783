// A file with a device's results of all cases. Results that are compared within an error are stored as bits, and all
// other results as hashes of their parts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

struct Recorded {
  std::uint64_t identity = 0;             ///< Case::identity() of the executed case
  std::string refused = {};               ///< why there is no result
  std::vector<std::byte> bits = {};       ///< comparable(), or empty
  std::vector<std::uint32_t> parts = {};  ///< hashes of kParts equal parts of comparable(), if there are no bits
};

struct Recording {
  std::string device = {};
  std::string driver = {};
  std::map<std::string, Recorded> cases = {};
};

inline constexpr std::size_t kParts = 16;

/// The output, with every NaN replaced by one NaN if the rule accepts any NaN.
std::vector<std::byte> comparable(const Case& given, std::vector<std::byte> output);
std::vector<std::uint32_t> hashes_of_parts(const std::vector<std::byte>& bytes);

/// Returns "" or where the output differs from Case::model, which must exist.
std::string difference_from_model(const Case& given, const std::vector<std::byte>& output);

/// `all` keeps the bits of every result, to investigate differences. Such a file is too large to keep.
Recorded recorded(const Case& given, std::vector<std::byte> output, bool all);

void write_recording(const Recording& recording, const std::string& path);
/// Throws std::runtime_error if the file is not a recording.
Recording read_recording(const std::string& path);

}  // namespace cubit::conformance
