// BundleWriter: makes the bytes of a bundle from compiled kernels and from entries of other bundles.
//
// The writer is a library of its own, because libcubit reads bundles and needs no compressor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/bundle/bundle.hpp"

namespace cubit::runtime {

/// zstd's level. Decompression is equally fast for every level, and 19 is the highest level that needs no more memory
/// from the reader.
inline constexpr int kBundleCompression = 19;

/// An entry before it has a place in a bundle.
struct PackedEntry {
  BundleRecord record;  ///< without the offset
  std::string block;
};

/// Compresses a compiled kernel. Throws Failure(invalid_argument) for an artifact without code or beyond the limits.
PackedEntry pack(const Artifact& artifact, std::string_view library);
/// Copies an entry with its compressed code. Throws Failure(io_error) for a damaged entry.
PackedEntry copied(const Bundle& bundle, const BundleRecord& record);

/// Collects entries. The written bytes do not depend on the order of the entries, nor on the bundles from which entries
/// were copied.
class BundleWriter {
 public:
  /// Throws Failure(invalid_argument) if the writer holds other code for the same key and compiler. Of two entries with
  /// the same code, which two descriptors may have requested, the one whose block comes first in byte order stays.
  void add(PackedEntry entry);

  std::uint64_t entries() const { return entries_.size(); }
  /// Passes the bytes of the bundle to `append`, in parts.
  void write(const std::function<void(std::string_view)>& append) const;
  /// The whole bundle, for small bundles.
  std::string bytes() const;

 private:
  std::map<std::pair<RequestKey, CompilerVersion>, PackedEntry> entries_;
};

}  // namespace cubit::runtime
