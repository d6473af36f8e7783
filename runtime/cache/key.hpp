// The two identities of a kernel: the request key (the compiler's input) and the artifact id (key plus compiler
// version).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/kernel_source.hpp"
#include "runtime/compiler/nvrtc.hpp"

namespace cubit::runtime {

/// Raise this number when the meaning of the hashed bytes or of an entry's file changes. Older entries then no longer
/// match.
inline constexpr int kSchemaVersion = 1;

/// BLAKE2b-256 over the schema version and every input of the compiler, each with its name and length: template name
/// and text, all headers with names and texts, options, target and entry point. The key contains no path, time, host
/// name or descriptor text. Computing a key needs no compiler.
struct RequestKey {
  std::array<std::uint8_t, 32> bytes{};
  std::string hex() const;  ///< 64 lower-case digits
  auto operator<=>(const RequestKey&) const = default;
};

/// Computes the key. `schema` is a parameter so that a test can show its effect.
RequestKey request_key(const codegen::KernelSource& source, int schema = kSchemaVersion);

/// Returns "<request key in hex>-nvrtc<major>.<minor>.<build>", the name of the entry in the disk cache.
std::string artifact_id(const RequestKey& key, const CompilerVersion& compiler);

/// BLAKE2b-256 of any bytes, for integrity checks.
std::array<std::uint8_t, 32> content_hash(std::string_view bytes);

struct RequestKeyHash {
  std::size_t operator()(const RequestKey& key) const noexcept;
};

}  // namespace cubit::runtime
