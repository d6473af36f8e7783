// Reads a bundle: pages of the index with their hashes, then blocks with theirs.
#include "runtime/bundle/bundle.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "runtime/bundle/bytes.hpp"

namespace cubit::runtime {
namespace {

/// The slot of the last of `count` links whose first key is less than `key`; 0 if there is none. Entries of `key` may
/// begin in that page, and no earlier page has one.
std::size_t link_before(std::string_view page, std::size_t count, const RequestKey& key) {
  std::size_t first = 0;
  std::size_t last = count;
  while (first < last) {
    const std::size_t middle = (first + last) / 2;
    if (read_link(page.substr(middle * kBundleLinkBytes, kBundleLinkBytes)).first < key) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first == 0 ? 0 : first - 1;
}

auto order_of(const BundleRecord& record) { return std::tie(record.key, record.compiler); }

/// Returns false if `compressed` is not one zstd frame of exactly `code.size()` bytes.
bool decompress(std::string_view compressed, std::vector<std::byte>& code) {
  if (ZSTD_findFrameCompressedSize(compressed.data(), compressed.size()) != compressed.size()) return false;
  return ZSTD_decompress(code.data(), code.size(), compressed.data(), compressed.size()) == code.size();
}

}  // namespace

Bundle Bundle::open(const std::filesystem::path& path) { return {path.string(), open_bundle_file(path)}; }

Bundle Bundle::of_memory(std::string name, std::span<const std::byte> bytes) {
  return {std::move(name), bundle_memory(bytes)};
}

Bundle::Bundle(std::string name, std::unique_ptr<const BundleBytes> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  std::string page(std::min<std::uint64_t>(bytes_->size(), kBundlePageBytes), '\0');
  if (!bytes_->read(0, page)) reject("it cannot be read");
  std::string damage;
  header_ = read_header(page, bytes_->size(), damage);
  if (!damage.empty()) reject(damage);
  layout_ = BundleLayout(header_.entries);
  root_ = root_of(page);
}

void Bundle::reject(const std::string& rule) const {
  throw Failure(Status::io_error, fmt::format("bundle {}", name_), rule, "copy or create the bundle again");
}

std::string Bundle::read(std::uint64_t offset, std::size_t bytes) const {
  std::string content(bytes, '\0');
  if (!bytes_->read(offset, content)) reject(fmt::format("{} bytes at {} cannot be read", bytes, offset));
  return content;
}

template <class Choose>
std::pair<std::uint64_t, std::string> Bundle::descend(Choose choose) const {
  ContentHash expected = header_.top;
  std::uint64_t number = 0;
  for (std::size_t level = layout_.pages.size(); level-- > 0;) {
    std::string page = read(layout_.page_offset(level, number), kBundlePageBytes);
    if (content_hash(page) != expected) {
      reject(fmt::format("page {} of level {} of its index does not match its hash", number, level));
    }
    if (level == 0) return {number, std::move(page)};
    const std::uint64_t first = number * kLinksPerPage;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kLinksPerPage, layout_.pages[level - 1] - first));
    const std::size_t slot = choose(page, level, count);
    expected = read_link(std::string_view(page).substr(slot * kBundleLinkBytes, kBundleLinkBytes)).hash;
    number = first + slot;
  }
  return {0, {}};
}

std::string Bundle::leaf(std::uint64_t page) const {
  return descend([&](std::string_view, std::size_t level, std::size_t) {
           std::uint64_t child = page;
           for (std::size_t above = 1; above < level; ++above) child /= kLinksPerPage;
           return static_cast<std::size_t>(child % kLinksPerPage);
         })
      .second;
}

std::size_t Bundle::records_in(std::uint64_t leaf) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(kRecordsPerPage, header_.entries - leaf * kRecordsPerPage));
}

BundleRecord Bundle::record_in(std::string_view leaf, std::size_t slot) const {
  const std::string_view bytes = leaf.substr(slot * kBundleRecordBytes, kBundleRecordBytes);
  if (const std::string damage = record_damage(bytes, layout_.blocks_offset, header_.file_bytes); !damage.empty()) {
    reject(damage);
  }
  return read_record(bytes);
}

std::vector<BundleRecord> Bundle::find(const RequestKey& key) const {
  std::vector<BundleRecord> found;
  if (header_.entries == 0) return found;
  auto [number, page] =
      descend([&](std::string_view inner, std::size_t, std::size_t count) { return link_before(inner, count, key); });
  while (true) {
    for (std::size_t slot = 0; slot < records_in(number); ++slot) {
      const BundleRecord record = record_in(page, slot);
      if (key < record.key) return found;
      if (record.key == key) found.push_back(record);
    }
    if (++number == layout_.pages.front()) return found;
    page = leaf(number);
  }
}

BundleRecord Bundle::record(std::uint64_t index) const {
  return record_in(leaf(index / kRecordsPerPage), static_cast<std::size_t>(index % kRecordsPerPage));
}

std::string Bundle::block(const BundleRecord& record) const {
  std::string block = read(record.offset, record.bytes);
  if (content_hash(block) != record.block_hash) {
    reject(fmt::format("the entry {} does not match its hash", record.key.hex()));
  }
  return block;
}

BundleFacts Bundle::facts(const BundleRecord& record) const {
  std::string damage;
  BundleFacts facts = read_facts(block(record), damage);
  if (!damage.empty()) reject(damage);
  return facts;
}

BundleEntry Bundle::load(const BundleRecord& record) const {
  const std::string block = this->block(record);
  std::string damage;
  BundleFacts facts = read_facts(block, damage);
  if (!damage.empty()) reject(damage);
  std::vector<std::byte> code(record.code_bytes);
  if (!decompress(std::string_view(block).substr(facts.code_offset), code) ||
      content_hash({reinterpret_cast<const char*>(code.data()), code.size()}) != record.code_hash) {
    reject(fmt::format("the code of the entry {} does not match its hash", record.key.hex()));
  }
  return {.artifact = {.key = record.key,
                       .compiler = record.compiler,
                       .descriptor = std::move(facts.descriptor),
                       .target = std::move(facts.target),
                       .entry_point = std::move(facts.entry_point),
                       .resources = facts.resources,
                       .compile_milliseconds = 0,
                       .code = record.code,
                       .inputs = std::move(facts.inputs),
                       .cubin = std::move(code)},
          .library = std::move(facts.library)};
}

void Bundle::verify_links() const {
  for (std::uint64_t page = 0; page < (layout_.pages.empty() ? 0 : layout_.pages.front()); ++page) {
    // A page is the first below a link of level n if its number is divisible by the number of pages below that link.
    std::vector<RequestKey> firsts;
    std::uint64_t below = 1;
    const auto choose = [&](std::string_view inner, std::size_t level, std::size_t count) {
      std::uint64_t child = page;
      below = 1;
      for (std::size_t above = 1; above < level; ++above, below *= kLinksPerPage) child /= kLinksPerPage;
      const auto slot = static_cast<std::size_t>(child % kLinksPerPage);
      if (page % below == 0) firsts.push_back(read_link(inner.substr(slot * kBundleLinkBytes, kBundleLinkBytes)).first);
      if (inner.find_first_not_of('\0', count * kBundleLinkBytes) != std::string_view::npos) {
        reject("the padding of its index is not zero");
      }
      return slot;
    };
    const std::string leaf = descend(choose).second;
    const RequestKey first = record_in(leaf, 0).key;
    if (std::any_of(firsts.begin(), firsts.end(), [&](const RequestKey& key) { return key != first; })) {
      reject("a link of its index has another key than the page below the link");
    }
    if (leaf.find_first_not_of('\0', records_in(page) * kBundleRecordBytes) != std::string::npos) {
      reject("the padding of its index is not zero");
    }
  }
}

void Bundle::verify() const {
  verify_links();
  std::uint64_t end = layout_.blocks_offset;
  BundleRecord before;
  for (std::uint64_t index = 0; index < header_.entries; ++index) {
    const BundleRecord record = this->record(index);
    if (index != 0 && !(order_of(before) < order_of(record))) reject("its entries are not in order");
    if (record.offset != end) reject(fmt::format("there is a gap or an overlap before the block at {}", record.offset));
    static_cast<void>(load(record));
    end += record.bytes;
    before = record;
  }
  if (end != header_.file_bytes) reject(fmt::format("{} bytes follow the last block", header_.file_bytes - end));
}

}  // namespace cubit::runtime
