// Bundle: reads kernels from a bundle, a file or memory that holds many compiled kernels (see format.hpp).
//
// Opening a bundle reads one page. A request reads one page of each level of the index and one block, and checks each
// against its hash before use. The reader copies every page before it checks the page, so a file that changes later
// cannot change what was checked. A file is read with pread and not mapped: a process that touches a mapped page which
// another process has cut off the file is ended by SIGBUS, while a short read is one damaged entry. The page cache
// shares the bytes between processes in both cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle/bytes.hpp"
#include "runtime/bundle/format.hpp"

namespace cubit::runtime {

/// An open bundle. All functions are thread-safe. They throw Failure(io_error), which names the bundle and its first
/// defect, for bytes that do not match their hash.
class Bundle {
 public:
  /// Opens a regular file.
  static Bundle open(const std::filesystem::path& path);
  /// Reads from memory of the caller, which must stay valid and unchanged. `name` is for messages.
  static Bundle of_memory(std::string name, std::span<const std::byte> bytes);

  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return header_.file_bytes; }
  std::uint64_t entries() const { return header_.entries; }
  const ContentHash& root() const { return root_; }
  const BundleHeader& header() const { return header_; }
  /// The key that signed the bundle, if the bundle is signed. A bundle with a wrong signature does not open.
  std::optional<PublicKey> signer() const {
    return header_.signature ? std::optional(header_.signature->signer) : std::nullopt;
  }
  /// Owner and permissions of the file when it was opened; nothing for memory.
  std::optional<Ownership> ownership() const { return bytes_->ownership(); }

  /// The entries of the key, one per compiler version, in ascending order of the version.
  std::vector<BundleRecord> find(const RequestKey& key) const;
  /// The entry at `index`, which is less than entries().
  BundleRecord record(std::uint64_t index) const;

  /// The compiled kernel of an entry. The block and the code are checked against their hashes.
  BundleEntry load(const BundleRecord& record) const;
  /// The facts of an entry, without the code. The block is checked against its hash.
  BundleFacts facts(const BundleRecord& record) const;
  /// The block of an entry, checked against its hash, for a writer that copies the block.
  std::string block(const BundleRecord& record) const;

  /// Checks everything: all pages, their order and padding, all blocks and all code. Every byte of the file takes part.
  void verify() const;

 private:
  Bundle(std::string name, std::unique_ptr<const BundleBytes> bytes);
  [[noreturn]] void reject(const std::string& rule) const;
  std::string read(std::uint64_t offset, std::size_t bytes) const;
  /// Reads the pages from the top page down to a leaf. `choose` gets each inner page with its number of links, and
  /// returns the link to follow. Returns the leaf's number and content.
  template <class Choose>
  std::pair<std::uint64_t, std::string> descend(Choose choose) const;
  std::string leaf(std::uint64_t page) const;
  BundleRecord record_in(std::string_view leaf, std::size_t slot) const;
  std::size_t records_in(std::uint64_t leaf) const;
  void verify_links() const;

  std::string name_;
  std::unique_ptr<const BundleBytes> bytes_;
  BundleHeader header_;
  BundleLayout layout_{0};
  ContentHash root_{};
};

}  // namespace cubit::runtime
