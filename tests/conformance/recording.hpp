// What a device made of the cases, as a file: results that are compared within an error as their bits, the others as
// hashes of their parts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

struct Recorded {
  std::uint64_t identity = 0;             ///< Case::identity() of what was run
  std::string refused = {};               ///< why there is no result
  std::vector<std::byte> bits = {};       ///< comparable(), or empty
  std::vector<std::uint32_t> parts = {};  ///< hashes of kParts equal parts of comparable(), where there are no bits
};

struct Recording {
  std::string device = {};
  std::string driver = {};
  std::map<std::string, Recorded> cases = {};
};

inline constexpr std::size_t kParts = 16;

/// The output, but every NaN the same one where the rule says that any will do.
std::vector<std::byte> comparable(const Case& given, std::vector<std::byte> output);
std::vector<std::uint32_t> hashes_of_parts(const std::vector<std::byte>& bytes);

/// Empty, or where the output is not what Case::model gives, which there has to be.
std::string difference_from_model(const Case& given, const std::vector<std::byte>& output);

/// `all`: bits of every result, to look into differences; such a file is too large to keep.
Recorded recorded(const Case& given, std::vector<std::byte> output, bool all);

void write_recording(const Recording& recording, const std::string& path);
/// Throws std::runtime_error for a file that is not one.
Recording read_recording(const std::string& path);

}  // namespace cubit::conformance
