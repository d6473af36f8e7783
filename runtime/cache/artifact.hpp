// The compiled kernel (Artifact) and its file format in the disk cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/key.hpp"
#include "runtime/compiler/nvrtc.hpp"

namespace cubit::runtime {

/// A compiled kernel with the facts that a loader and `cubit cache list` need.
struct Artifact {
  RequestKey key;
  CompilerVersion compiler;
  std::string descriptor;  ///< text of the request that first made the kernel; for people (`cubit cache list`)
  std::string target;      ///< "sm_90a"
  std::string entry_point;
  ResourceReport resources;
  double compile_milliseconds = 0;
  codegen::Code code = codegen::Code::cubin;
  std::vector<InputDigest> inputs = {};  ///< of the request key; empty if an earlier version stored the entry
  std::vector<std::byte> cubin;          ///< the cubin, or the PTX text if `code` is Code::ptx
};

/// Bytes at the start of an entry that suffice to compute the entry's length.
inline constexpr std::size_t kEntryPrefixBytes = 24;

/// Says why a file of `size` bytes cannot be an entry, or returns "" if the file may be one. `front` holds at least the
/// first kEntryPrefixBytes bytes, or the whole file. The function checks magic, schema version and lengths. An entry
/// has at most 256 MiB.
std::string prefix_damage(std::string_view front, std::uint64_t size);

/// Returns the file content: magic, schema version, a JSON header, the cubin, and a content hash of all bytes before
/// the hash. Numbers are little-endian.
std::string serialise(const Artifact& artifact);

/// Parses an entry. Throws Failure(io_error) that names the first defect: too short, or wrong magic, schema, lengths or
/// hash.
Artifact deserialise(std::string_view bytes);

}  // namespace cubit::runtime
