// Writes a bundle: sorted entries, the index as a hash tree from the leaves up, the header, and the blocks.
#include "runtime/bundle/writer.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <vector>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

[[noreturn]] void refuse(const Artifact& artifact, const std::string& rule) {
  throw Failure(Status::invalid_argument, fmt::format("{} for {}", artifact.descriptor, artifact.target), rule);
}

std::string compressed(std::string_view code) {
  std::string bytes(ZSTD_compressBound(code.size()), '\0');
  const std::size_t length = ZSTD_compress(bytes.data(), bytes.size(), code.data(), code.size(), kBundleCompression);
  if (ZSTD_isError(length) != 0) {
    throw Failure(Status::internal, "zstd", fmt::format("cannot compress a kernel: {}", ZSTD_getErrorName(length)));
  }
  bytes.resize(length);
  return bytes;
}

/// A page of the level below: its first key and its hash.
using Links = std::vector<BundleLink>;

void append_page(std::string page, const RequestKey& first, std::string& index, Links& links) {
  page.resize(kBundlePageBytes, '\0');
  links.push_back({first, content_hash(page)});
  index += page;
}

/// Appends the level above `below` to the index, and returns the links to its pages.
Links append_level(const Links& below, std::string& index) {
  Links links;
  for (std::size_t first = 0; first < below.size(); first += kLinksPerPage) {
    std::string page;
    for (std::size_t i = first; i < std::min(below.size(), first + kLinksPerPage); ++i) append_link(page, below[i]);
    append_page(std::move(page), below[first].first, index, links);
  }
  return links;
}

/// Returns all pages of the index, and the hash of the top page in `top`.
std::string index_of(const std::vector<BundleRecord>& records, ContentHash& top) {
  std::string index;
  Links links;
  for (std::size_t first = 0; first < records.size(); first += kRecordsPerPage) {
    std::string page;
    for (std::size_t i = first; i < std::min(records.size(), first + kRecordsPerPage); ++i) {
      append_record(page, records[i]);
    }
    append_page(std::move(page), records[first].key, index, links);
  }
  while (links.size() > 1) links = append_level(links, index);
  top = links.empty() ? ContentHash{} : links.front().hash;
  return index;
}

}  // namespace

PackedEntry pack(const Artifact& artifact, std::string_view library) {
  const std::string_view code(reinterpret_cast<const char*>(artifact.cubin.data()), artifact.cubin.size());
  if (code.empty()) refuse(artifact, "the kernel has no code");
  if (code.size() > kMaximumBlockBytes) refuse(artifact, "the kernel's code is larger than an entry may be");
  std::string block = facts_of(artifact, library) + compressed(code);
  if (block.size() > kMaximumBlockBytes) refuse(artifact, "the kernel is larger than an entry may be");
  const BundleRecord record{.key = artifact.key,
                            .compiler = artifact.compiler,
                            .code = artifact.code,
                            .bytes = static_cast<std::uint32_t>(block.size()),
                            .code_bytes = static_cast<std::uint32_t>(code.size()),
                            .block_hash = content_hash(block),
                            .code_hash = content_hash(code)};
  block.shrink_to_fit();  // the compressor's buffer is larger than the code
  return {record, std::move(block)};
}

PackedEntry copied(const Bundle& bundle, const BundleRecord& record) { return {record, bundle.block(record)}; }

void BundleWriter::add(PackedEntry entry) {
  const auto place = entries_.find({entry.record.key, entry.record.compiler});
  if (place == entries_.end()) {
    const auto key = std::pair(entry.record.key, entry.record.compiler);
    entries_.emplace(key, std::move(entry));
    return;
  }
  if (place->second.record.code_hash != entry.record.code_hash) {
    throw Failure(Status::invalid_argument, fmt::format("the key {}", entry.record.key.hex()),
                  fmt::format("two entries of NVRTC {} have different code", entry.record.compiler.text()),
                  "leave one of the entries out");
  }
  if (entry.block < place->second.block) place->second = std::move(entry);
}

void BundleWriter::write(const std::function<void(std::string_view)>& append) const {
  const BundleLayout layout(entries_.size());
  std::vector<BundleRecord> records;
  BundleHeader header{.file_bytes = layout.blocks_offset, .entries = entries_.size()};
  for (const auto& [key, entry] : entries_) {
    records.push_back(entry.record);
    records.back().offset = header.file_bytes;
    header.file_bytes += entry.record.bytes;
  }
  const std::string index = index_of(records, header.top);
  append(header_page(header));
  append(index);
  for (const auto& [key, entry] : entries_) append(entry.block);
}

std::string BundleWriter::bytes() const {
  std::string bytes;
  write([&](std::string_view part) { bytes += part; });
  return bytes;
}

}  // namespace cubit::runtime
