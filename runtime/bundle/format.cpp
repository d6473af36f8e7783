// Encodes and decodes the fixed parts of a bundle. Decoding checks every length before it uses the length.
#include "runtime/bundle/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/bundle/signature.hpp"
#include "runtime/little_endian.hpp"

namespace cubit::runtime {
namespace {

constexpr std::size_t kResourceNumbers = 6;

std::uint32_t word_at(std::string_view bytes, std::size_t offset) { return number_at<std::uint32_t>(bytes, offset); }

void put_hash(std::string& bytes, const ContentHash& hash) {
  bytes.append(reinterpret_cast<const char*>(hash.data()), hash.size());
}

ContentHash hash_at(std::string_view bytes, std::size_t offset) {
  ContentHash hash;
  std::memcpy(hash.data(), bytes.data() + offset, hash.size());
  return hash;
}

bool is_zero(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

void put_text(std::string& bytes, std::string_view text) {
  append_number(bytes, static_cast<std::uint32_t>(text.size()));
  bytes += text;
}

/// Takes a text from the front of `rest`. Returns false if `rest` is too short for the text.
bool take_text(std::string_view& rest, std::string& text) {
  if (rest.size() < sizeof(std::uint32_t)) return false;
  const std::size_t length = word_at(rest, 0);
  rest.remove_prefix(sizeof(std::uint32_t));
  if (length > rest.size()) return false;
  text = rest.substr(0, length);
  rest.remove_prefix(length);
  return true;
}

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

bool fits_int(std::uint32_t value) { return value <= static_cast<std::uint32_t>(std::numeric_limits<int>::max()); }

/// The signature in the header, or nothing if its bytes are zero.
std::optional<BundleSignature> signature_in(std::string_view page) {
  const std::string_view bytes = page.substr(kBundleSignatureOffset, kBundleHeaderBytes - kBundleSignatureOffset);
  if (is_zero(bytes)) return std::nullopt;
  BundleSignature signature;
  signature.signer.bytes = hash_at(bytes, 0);
  std::memcpy(signature.bytes.data(), bytes.data() + signature.signer.bytes.size(), signature.bytes.size());
  return signature;
}

/// Says why these numbers of the header cannot be right, or returns "".
std::string lengths_damage(const BundleHeader& header, std::uint64_t file_bytes) {
  if (header.file_bytes != file_bytes) {
    return fmt::format("it has {} bytes, and its header says {}", file_bytes, header.file_bytes);
  }
  if (header.entries > file_bytes / kBundleRecordBytes ||
      BundleLayout(header.entries).blocks_offset > header.file_bytes) {
    return fmt::format("its index of {} entries does not fit its {} bytes", header.entries, file_bytes);
  }
  return {};
}

}  // namespace

BundleLayout::BundleLayout(std::uint64_t entries) {
  std::uint64_t next = 1;
  for (std::uint64_t count = divide_up(entries, kRecordsPerPage); count != 0;
       count = count == 1 ? 0 : divide_up(count, kLinksPerPage)) {
    pages.push_back(count);
    first_page.push_back(next);
    next += count;
  }
  blocks_offset = kBundlePageBytes * next;
}

ContentHash root_of(std::string_view header_page) { return content_hash(header_page.substr(0, kBundleRootOffset)); }

std::string header_page(const BundleHeader& header) {
  std::string page(kBundleMagic);
  append_number(page, kBundleVersion);
  append_number(page, std::uint32_t{0});
  append_number(page, header.file_bytes);
  append_number(page, header.entries);
  put_hash(page, header.top);
  put_hash(page, root_of(page));
  if (header.signature) {
    put_hash(page, header.signature->signer.bytes);
    page.append(reinterpret_cast<const char*>(header.signature->bytes.data()), header.signature->bytes.size());
  }
  page.resize(kBundlePageBytes, '\0');
  return page;
}

BundleHeader read_header(std::string_view page, std::uint64_t file_bytes, std::string& damage) {
  damage.clear();
  BundleHeader header;
  if (page.size() < kBundlePageBytes) {
    damage = fmt::format("it is too short: {} bytes, and the smallest bundle has {}", file_bytes, kBundlePageBytes);
    return header;
  }
  const std::uint32_t version = word_at(page, 8);
  header = {.file_bytes = number_at<std::uint64_t>(page, 16),
            .entries = number_at<std::uint64_t>(page, 24),
            .top = hash_at(page, 32),
            .signature = signature_in(page)};
  if (!page.starts_with(kBundleMagic)) {
    damage = fmt::format("it does not start with the magic {}", kBundleMagic);
  } else if (version != kBundleVersion) {
    damage = fmt::format("it has format version {}, and this cubit reads {}", version, kBundleVersion);
  } else if (root_of(page) != hash_at(page, kBundleRootOffset)) {
    damage = "its header does not match its root";
  } else if (!is_zero(page.substr(12, 4)) || !is_zero(page.substr(kBundleHeaderBytes))) {
    damage = "the padding of its header is not zero";
  } else if (header.signature && !is_signature_of(*header.signature, root_of(page))) {
    damage = "its signature does not match its root";
  } else {
    damage = lengths_damage(header, file_bytes);
  }
  return header;
}

void append_record(std::string& bytes, const BundleRecord& record) {
  put_hash(bytes, record.key.bytes);
  for (const int number : {record.compiler.major, record.compiler.minor, record.compiler.build}) {
    append_number(bytes, static_cast<std::uint32_t>(number));
  }
  append_number(bytes, std::uint32_t{record.code == codegen::Code::ptx});
  append_number(bytes, record.offset);
  append_number(bytes, record.bytes);
  append_number(bytes, record.code_bytes);
  put_hash(bytes, record.block_hash);
  put_hash(bytes, record.code_hash);
}

BundleRecord read_record(std::string_view bytes) {
  const auto number = [&](std::size_t offset) { return static_cast<int>(word_at(bytes, offset)); };
  return {.key = {hash_at(bytes, 0)},
          .compiler = {number(32), number(36), number(40)},
          .code = word_at(bytes, 44) == 0 ? codegen::Code::cubin : codegen::Code::ptx,
          .offset = number_at<std::uint64_t>(bytes, 48),
          .bytes = word_at(bytes, 56),
          .code_bytes = word_at(bytes, 60),
          .block_hash = hash_at(bytes, 64),
          .code_hash = hash_at(bytes, 96)};
}

std::string record_damage(std::string_view bytes, std::uint64_t blocks_offset, std::uint64_t file_bytes) {
  const BundleRecord record = read_record(bytes);
  if (!fits_int(word_at(bytes, 32)) || !fits_int(word_at(bytes, 36)) || !fits_int(word_at(bytes, 40))) {
    return "the compiler version of an entry is out of range";
  }
  if (word_at(bytes, 44) > 1) return "an entry names a kind of code that is not known";
  if (record.offset < blocks_offset || record.offset > file_bytes || record.bytes > file_bytes - record.offset) {
    return fmt::format("the block of an entry, {} bytes at {}, is not inside the file", record.bytes, record.offset);
  }
  if (record.bytes > kMaximumBlockBytes || record.code_bytes > kMaximumBlockBytes || record.code_bytes == 0) {
    return fmt::format("an entry of {} bytes with {} bytes of code is out of range", record.bytes, record.code_bytes);
  }
  return {};
}

void append_link(std::string& bytes, const BundleLink& link) {
  put_hash(bytes, link.first.bytes);
  put_hash(bytes, link.hash);
}

BundleLink read_link(std::string_view bytes) { return {{hash_at(bytes, 0)}, hash_at(bytes, 32)}; }

std::string facts_of(const Artifact& artifact, std::string_view library) {
  const ResourceReport& resources = artifact.resources;
  std::string facts;
  for (const int number : {resources.registers, resources.spill_store_bytes, resources.spill_load_bytes,
                           resources.stack_bytes, resources.static_shared_memory, resources.barriers}) {
    append_number(facts, static_cast<std::uint32_t>(number));
  }
  put_text(facts, artifact.target);
  put_text(facts, artifact.entry_point);
  put_text(facts, artifact.descriptor);
  put_text(facts, library);
  for (const InputDigest& input : artifact.inputs) {
    append_number(facts, input.name);
    append_number(facts, input.content);
  }
  std::string bytes;
  put_text(bytes, facts);
  return bytes;
}

BundleFacts read_facts(std::string_view block, std::string& damage) {
  damage.clear();
  BundleFacts facts;
  std::string_view after = block;
  std::string text;
  if (!take_text(after, text) || text.size() < kResourceNumbers * sizeof(std::uint32_t)) {
    damage = "the facts of an entry do not fit the entry's block";
    return facts;
  }
  std::array<int, kResourceNumbers> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint32_t number = word_at(text, i * sizeof number);
    if (!fits_int(number)) damage = "a number in the facts of an entry is out of range";
    numbers[i] = static_cast<int>(number);
  }
  facts.resources = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
  std::string_view rest = std::string_view(text).substr(kResourceNumbers * sizeof(std::uint32_t));
  const bool complete = take_text(rest, facts.target) && take_text(rest, facts.entry_point) &&
                        take_text(rest, facts.descriptor) && take_text(rest, facts.library);
  constexpr std::size_t kInputBytes = 2 * sizeof(std::uint32_t);
  if (!complete || rest.size() % kInputBytes != 0) damage = "the texts in the facts of an entry do not add up";
  for (; rest.size() >= kInputBytes; rest.remove_prefix(kInputBytes)) {
    facts.inputs.push_back({word_at(rest, 0), word_at(rest, sizeof(std::uint32_t))});
  }
  facts.code_offset = block.size() - after.size();
  return facts;
}

}  // namespace cubit::runtime
