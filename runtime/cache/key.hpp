// The two identities of a kernel: the request key (the compiler's input) and the artifact id (key plus compiler
// version).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A short digest of one input that request_key() hashes. The digests of two keys tell which inputs differ; they prove
/// nothing.
struct InputDigest {
  std::uint32_t name = 0;
  std::uint32_t content = 0;
  auto operator<=>(const InputDigest&) const = default;
};

struct NamedInput {
  std::string name;  ///< "header plan.cuh"
  InputDigest digest;
};

/// All inputs that request_key() hashes, in the same order.
std::vector<NamedInput> named_inputs(const codegen::KernelSource& source);
std::vector<InputDigest> input_digests(const codegen::KernelSource& source);

/// Digests as text, 16 lower-case digits each.
std::string inputs_text(std::span<const InputDigest> inputs);
/// Parses inputs_text(). Returns nothing for other texts.
std::optional<std::vector<InputDigest>> parse_inputs(std::string_view text);

/// BLAKE2b-256 of any bytes, for integrity checks.
std::array<std::uint8_t, 32> content_hash(std::string_view bytes);

struct RequestKeyHash {
  std::size_t operator()(const RequestKey& key) const noexcept;
};

}  // namespace cubit::runtime
