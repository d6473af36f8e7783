// The file format of a bundle: one file with many compiled kernels, whose index is a hash tree with one root.
//
//   page 0            header, padded with zeros
//   pages 1 to N      index: the leaf pages, then each level of inner pages up to the one top page
//   after page N      one block per entry, without gaps, in the order of the entries
//
// A page has 4096 bytes. Numbers are little-endian, and hashes are BLAKE2b-256. Entries are in ascending order of
// request key and compiler version, and no two entries have both in common. The same entries give the same bytes.
//
//   header      0    8 bytes  magic "CUBITBDL"
//               8    u32      format version
//              12    u32      zero
//              16    u64      bytes of the file
//              24    u64      number of entries
//              32   32 bytes  hash of the top page; zero if the bundle has no entry
//              64   32 bytes  root: hash of the 64 bytes before it
//              96   32 bytes  public key of the signer; zero if the bundle is not signed
//             128   64 bytes  Ed25519 signature of the root (see signature.hpp); zero if the bundle is not signed
//             192             zeros
//   leaf page        up to 32 records of 128 bytes, padded with zeros; every leaf page but the last is full
//   record      0   32 bytes  request key
//              32    3 × u32  compiler version: major, minor, build
//              44    u32      kind of code: 0 for a cubin, 1 for PTX
//              48    u64      offset of the block in the file
//              56    u32      bytes of the block
//              60    u32      bytes of the code before compression
//              64   32 bytes  hash of the block
//              96   32 bytes  hash of the code before compression
//   inner page       up to 64 links of 64 bytes, padded with zeros; every inner page but a level's last is full
//   link        0   32 bytes  request key of the first record below the page that the link names
//              32   32 bytes  hash of that page
//   block       0    u32      bytes of the facts
//               4             facts, then one zstd frame with the code
//   facts       0    6 × u32  registers; bytes of spill stores, spill loads, stack and static shared memory; barriers
//              24    4 texts  target, entry point, descriptor, version of cubit; each text follows its u32 length
//                             then, up to the end of the facts, digests of the compiler's inputs, 2 × u32 each
//
// The positions of all index pages follow from the number of entries, so the index needs no offsets. A reader finds a
// key by reading one page of each level. The link above has the hash of each of these pages, and the root has the
// hash of the top page. The root does not cover the signature: signing a bundle changes 96 bytes of the header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/artifact.hpp"

namespace cubit::runtime {

/// Raise this number when the meaning of a bundle's bytes changes. A reader refuses every other version.
inline constexpr std::uint32_t kBundleVersion = 1;

inline constexpr std::string_view kBundleMagic = "CUBITBDL";
inline constexpr std::size_t kBundlePageBytes = 4096;
inline constexpr std::size_t kBundleHeaderBytes = 192;  ///< bytes of the header before its padding
inline constexpr std::size_t kBundleRootOffset = 64;
inline constexpr std::size_t kBundleSignatureOffset = 96;
inline constexpr std::size_t kBundleRecordBytes = 128;
inline constexpr std::size_t kBundleLinkBytes = 64;
inline constexpr std::size_t kRecordsPerPage = kBundlePageBytes / kBundleRecordBytes;
inline constexpr std::size_t kLinksPerPage = kBundlePageBytes / kBundleLinkBytes;
/// The largest block and the largest code, as for an entry of the disk cache.
inline constexpr std::uint32_t kMaximumBlockBytes = std::uint32_t{256} << 20;

using ContentHash = std::array<std::uint8_t, 32>;

/// A public key of Ed25519 (RFC 8032).
struct PublicKey {
  std::array<std::uint8_t, 32> bytes{};
  std::string hex() const;  ///< 64 lower-case digits
  auto operator<=>(const PublicKey&) const = default;
};

/// The signer and the signature of a bundle.
struct BundleSignature {
  PublicKey signer;
  std::array<std::uint8_t, 64> bytes{};
};

struct BundleHeader {
  std::uint64_t file_bytes = 0;
  std::uint64_t entries = 0;
  ContentHash top{};  ///< hash of the top page
  std::optional<BundleSignature> signature = {};
};

/// The index's fixed-size part of an entry.
struct BundleRecord {
  RequestKey key;
  CompilerVersion compiler;
  codegen::Code code = codegen::Code::cubin;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t code_bytes = 0;
  ContentHash block_hash{};
  ContentHash code_hash{};
};

/// A child of an inner page.
struct BundleLink {
  RequestKey first;
  ContentHash hash{};
};

/// A compiled kernel with the version of cubit that made the kernel's bundle.
struct BundleEntry {
  Artifact artifact;
  std::string library;  ///< "0.1.0"
};

/// The facts of a block and the position of the compressed code in the block.
struct BundleFacts {
  ResourceReport resources;
  std::string target;
  std::string entry_point;
  std::string descriptor;
  std::string library;
  std::vector<InputDigest> inputs;
  std::size_t code_offset = 0;
};

/// The positions of all index pages of a bundle. Level 0 holds the leaf pages, and the last level holds the top page.
struct BundleLayout {
  explicit BundleLayout(std::uint64_t entries);

  std::uint64_t page_offset(std::size_t level, std::uint64_t page) const {
    return kBundlePageBytes * (first_page[level] + page);
  }

  std::vector<std::uint64_t> pages;       ///< number of pages of each level; empty without entries
  std::vector<std::uint64_t> first_page;  ///< number of the level's first page in the file
  std::uint64_t blocks_offset = kBundlePageBytes;
};

/// The header as one page, with the root and the signature.
std::string header_page(const BundleHeader& header);
/// Returns the header and sets `damage` to the first defect, or to "". A signature that does not match the root is a
/// defect. `page` has at most one page.
BundleHeader read_header(std::string_view page, std::uint64_t file_bytes, std::string& damage);
/// The hash of the header, which stands for the whole bundle.
ContentHash root_of(std::string_view header_page);

void append_record(std::string& bytes, const BundleRecord& record);
void append_link(std::string& bytes, const BundleLink& link);
/// `bytes` holds the whole record or link.
BundleRecord read_record(std::string_view bytes);
BundleLink read_link(std::string_view bytes);
/// Says which number of the record is out of range, or returns "". The block must lie between `blocks_offset` and the
/// end of the file.
std::string record_damage(std::string_view bytes, std::uint64_t blocks_offset, std::uint64_t file_bytes);

/// The facts with their length, which is the part of a block before the code.
std::string facts_of(const Artifact& artifact, std::string_view library);
/// Returns the facts and sets `damage` to the first defect, or to "".
BundleFacts read_facts(std::string_view block, std::string& damage);

}  // namespace cubit::runtime
