// Damages bundles for tests and for the fuzzer: edits bytes, and repairs hashes so that a damaged bundle reaches the
// code behind the hash checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle/bundle.hpp"
#include "runtime/bundle/sign.hpp"

namespace cubit::runtime::test {

/// Artifacts whose keys spread over the whole range; some keys have several compilers, and one artifact is PTX.
std::vector<Artifact> sample_artifacts(std::size_t count);

/// The bundle of sample_artifacts(count).
std::string sample_bundle(std::size_t count);

/// The bundle with its root signed.
std::string signed_by(std::string bundle, const KeyPair& keys);

std::span<const std::byte> as_bytes(std::string_view text);

/// Makes the hashes of blocks, pages and header match their content again wherever the positions permit it, as only a
/// hostile writer would.
void repair_hashes(std::string& bundle);

/// Opens the bundle and loads every entry in every way. Every part may throw Failure(io_error), and nothing else.
/// Returns the entries that could be loaded.
std::vector<BundleEntry> load_all(std::string_view bundle, std::span<const RequestKey> keys);

/// True if all facts and the code are those of the artifact.
bool is_same(const BundleEntry& entry, const Artifact& artifact);

/// Applies `edits` to `bundle`. The first byte of `edits` chooses whether hashes are repaired. Each following group of
/// five bytes is one edit: a position (u32, modulo the size) and the new byte. Returns whether hashes were repaired.
bool apply_edits(std::string& bundle, std::span<const std::uint8_t> edits);

}  // namespace cubit::runtime::test
