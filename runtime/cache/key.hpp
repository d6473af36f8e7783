// The two identities of a kernel: what was asked of the compiler, and which compiler answered.
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

/// Raised whenever the meaning of the hashed bytes or of an entry's file changes: older entries stop matching.
inline constexpr int kSchemaVersion = 1;

/// BLAKE2b-256 over the schema version and every field that the compiler sees, each with its name and length:
/// template name and text, every header's name and text, options, target, entry point. No path, time or host name;
/// the descriptor's text is not in it. Computable where no compiler exists.
struct RequestKey {
  std::array<std::uint8_t, 32> bytes{};
  std::string hex() const;  ///< 64 lower-case digits
  auto operator<=>(const RequestKey&) const = default;
};

/// `schema` is an argument only so that a test can show that it counts.
RequestKey request_key(const codegen::KernelSource& source, int schema = kSchemaVersion);

/// "<request key in hex>-nvrtc<major>.<minor>.<build>": the name under which the disk cache stores an entry.
std::string artifact_id(const RequestKey& key, const CompilerVersion& compiler);

/// BLAKE2b-256 of arbitrary bytes, for integrity checks.
std::array<std::uint8_t, 32> content_hash(std::string_view bytes);

struct RequestKeyHash {
  std::size_t operator()(const RequestKey& key) const noexcept;
};

}  // namespace cubit::runtime
