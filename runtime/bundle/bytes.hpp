// BundleBytes: random access to the bytes of a bundle, in a file or in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "runtime/cache/trust.hpp"

namespace cubit::runtime {

class BundleBytes {
 public:
  BundleBytes() = default;
  BundleBytes(const BundleBytes&) = delete;
  BundleBytes& operator=(const BundleBytes&) = delete;
  virtual ~BundleBytes() = default;
  virtual std::uint64_t size() const = 0;
  /// Owner and permissions of the open file; nothing for memory.
  virtual std::optional<Ownership> ownership() const = 0;
  /// Copies the bytes at `offset`. Thread-safe. Returns false if the bytes cannot be read or are not there any more.
  virtual bool read(std::uint64_t offset, std::span<char> bytes) const = 0;
};

/// Opens a regular file. Throws Failure(io_error).
std::unique_ptr<const BundleBytes> open_bundle_file(const std::filesystem::path& path);

/// Memory of the caller, which must stay valid and unchanged.
std::unique_ptr<const BundleBytes> bundle_memory(std::span<const std::byte> bytes);

}  // namespace cubit::runtime
