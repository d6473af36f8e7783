#include "tests/runtime/bundle_edits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "runtime/bundle/writer.hpp"

namespace cubit::runtime::test {
namespace {

void put(std::string& bytes, std::size_t offset, const ContentHash& hash) {
  std::memcpy(bytes.data() + offset, hash.data(), hash.size());
}

std::uint64_t header_number(std::string_view bundle, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, bundle.data() + offset, sizeof value);
  return value;
}

/// Fixes the hash of a record's block if the block lies inside the file.
void repair_record(std::string& bundle, std::size_t record) {
  const BundleRecord facts = read_record(std::string_view(bundle).substr(record, kBundleRecordBytes));
  if (facts.offset > bundle.size() || facts.bytes > bundle.size() - facts.offset) return;
  put(bundle, record + 64, content_hash(std::string_view(bundle).substr(facts.offset, facts.bytes)));
}

ContentHash page_hash(std::string_view bundle, std::size_t offset) {
  return content_hash(bundle.substr(offset, kBundlePageBytes));
}

/// Fixes the hashes of blocks and pages, from the blocks up to the top page.
void repair_tree(std::string& bundle) {
  const std::uint64_t entries = header_number(bundle, 24);
  if (entries > bundle.size() / kBundleRecordBytes) return;
  const BundleLayout layout(entries);
  if (layout.blocks_offset > bundle.size()) return;
  for (std::uint64_t i = 0; i < entries; ++i) {
    repair_record(bundle, layout.page_offset(0, i / kRecordsPerPage) + i % kRecordsPerPage * kBundleRecordBytes);
  }
  for (std::size_t level = 1; level < layout.pages.size(); ++level) {
    for (std::uint64_t child = 0; child < layout.pages[level - 1]; ++child) {
      const std::size_t link =
          layout.page_offset(level, child / kLinksPerPage) + child % kLinksPerPage * kBundleLinkBytes;
      put(bundle, link + 32, page_hash(bundle, layout.page_offset(level - 1, child)));
    }
  }
  if (entries != 0) put(bundle, 32, page_hash(bundle, layout.page_offset(layout.pages.size() - 1, 0)));
}

}  // namespace

std::vector<Artifact> sample_artifacts(std::size_t count) {
  std::vector<Artifact> artifacts;
  for (std::size_t i = 0; i < count; ++i) {
    // Every third key has two more compilers.
    const std::size_t same = i % 9 < 3 ? i - i % 9 : i;
    Artifact artifact;
    const std::string name = fmt::format("small:{}", same);
    artifact.key.bytes = content_hash(name);
    artifact.compiler = {12 + static_cast<int>(i % 2), static_cast<int>(i), 88};
    artifact.descriptor = name;
    artifact.target = same % 2 == 0 ? "sm_90a" : "sm_80";
    artifact.entry_point = "small";
    artifact.resources = {static_cast<int>(i), 1, 2, 3, 4, 5};
    artifact.code = i == 5 ? codegen::Code::ptx : codegen::Code::cubin;
    for (std::size_t j = 0; j < i % 4; ++j) artifact.inputs.push_back({static_cast<std::uint32_t>(j), 7});
    for (std::size_t j = 0; j < 40 + i % 50; ++j) artifact.cubin.push_back(static_cast<std::byte>((i + j * j) & 0xff));
    artifacts.push_back(std::move(artifact));
  }
  return artifacts;
}

std::string sample_bundle(std::size_t count) {
  BundleWriter writer;
  for (const Artifact& artifact : sample_artifacts(count)) writer.add(pack(artifact, "0.1.0"));
  return writer.bytes();
}

std::string signed_by(std::string bundle, const KeyPair& keys) {
  BundleHeader header = Bundle::of_memory("test", as_bytes(bundle)).header();
  header.signature = sign_root(root_of(bundle), keys.secret);
  return bundle.replace(0, kBundlePageBytes, header_page(header));
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void repair_hashes(std::string& bundle) {
  if (bundle.size() < kBundlePageBytes) return;
  repair_tree(bundle);
  put(bundle, kBundleRootOffset, root_of(bundle));
}

std::vector<BundleEntry> load_all(std::string_view bundle, std::span<const RequestKey> keys) {
  std::vector<BundleEntry> loaded;
  const auto attempt = [](const auto& action) {
    try {
      action();
    } catch (const Failure& failure) {
      if (failure.status() != Status::io_error) throw;
    }
  };
  attempt([&] {
    const Bundle open = Bundle::of_memory("test", as_bytes(bundle));
    for (const RequestKey& key : keys) {
      attempt([&] {
        for (const BundleRecord& record : open.find(key)) attempt([&] { loaded.push_back(open.load(record)); });
      });
    }
    for (std::uint64_t i = 0; i < open.entries(); ++i) attempt([&] { loaded.push_back(open.load(open.record(i))); });
    attempt([&] { open.verify(); });
  });
  return loaded;
}

bool is_same(const BundleEntry& entry, const Artifact& artifact) {
  const Artifact& got = entry.artifact;
  return entry.library == "0.1.0" && got.key == artifact.key && got.compiler == artifact.compiler &&
         got.descriptor == artifact.descriptor && got.target == artifact.target &&
         got.entry_point == artifact.entry_point && got.resources == artifact.resources && got.code == artifact.code &&
         got.inputs == artifact.inputs && got.cubin == artifact.cubin;
}

bool apply_edits(std::string& bundle, std::span<const std::uint8_t> edits) {
  constexpr std::size_t kEditBytes = 5;
  if (edits.empty()) return false;
  const bool repair = (edits.front() & 1) != 0;
  for (edits = edits.subspan(1); edits.size() >= kEditBytes; edits = edits.subspan(kEditBytes)) {
    std::uint32_t position = 0;
    std::memcpy(&position, edits.data(), sizeof position);
    bundle[position % bundle.size()] = static_cast<char>(edits[4]);
  }
  if (repair) repair_hashes(bundle);
  return repair;
}

}  // namespace cubit::runtime::test
