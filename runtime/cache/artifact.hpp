// A compiled kernel as a value, and its one file format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/key.hpp"
#include "runtime/compiler/nvrtc.hpp"

namespace cubit::runtime {

struct Artifact {
  RequestKey key;
  CompilerVersion compiler;
  std::string descriptor;  ///< text of the request that first made it; for people (`cubit cache list`)
  std::string target;      ///< "sm_90a"
  std::string entry_point;
  ResourceReport resources;
  double compile_milliseconds = 0;
  codegen::Code code = codegen::Code::cubin;
  std::vector<std::byte> cubin;  ///< or the PTX text, as `code` says
};

/// Bytes at an entry's front that say how long it is.
inline constexpr std::size_t kEntryPrefixBytes = 24;

/// Why a file of `size` bytes that starts with `front` (at least kEntryPrefixBytes of it, or all) is no entry; empty if
/// it may be one. Looks at magic, schema version and lengths; an entry has 256 MiB at most.
std::string prefix_damage(std::string_view front, std::uint64_t size);

/// Magic, schema version, a JSON header, the cubin, and the content hash of all of it. Little-endian.
std::string serialise(const Artifact& artifact);

/// Throws Failure(io_error) that names the first thing wrong: too short, wrong magic, schema, lengths or hash.
Artifact deserialise(std::string_view bytes);

}  // namespace cubit::runtime
