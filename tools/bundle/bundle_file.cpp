#include "tools/bundle/bundle_file.hpp"

#include <cubit/cubit.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "base/error.hpp"
#include "files/input_file.hpp"
#include "files/output_file.hpp"
#include "files/text/error.hpp"
#include "runtime/bundle/sign.hpp"
#include "runtime/bundle/writer.hpp"
#include "runtime/cache/disk_cache.hpp"
#include "runtime/cache/files.hpp"
#include "runtime/settings.hpp"

namespace cubit::tools {
namespace {

/// Permissions of bundles and public keys, whatever the umask. An engine refuses a bundle that its group can write
/// (docs/trust.md), and other users load bundles.
constexpr mode_t kPublic = 0644;

/// Turns the runtime's failures into the tool's.
template <class Function>
auto as_bad_input(Function function) {
  try {
    return function();
  } catch (const Failure& failure) {
    throw BadInput(failure.given(), failure.rule(), failure.remedy());
  }
}

std::string digits(const runtime::ContentHash& hash) { return runtime::RequestKey{hash}.hex(); }

std::string library_version() {
  return fmt::format("{}.{}.{}", CUBIT_VERSION_MAJOR, CUBIT_VERSION_MINOR, CUBIT_VERSION_PATCH);
}

runtime::RequestKey key_of(const std::string& hex) {
  runtime::RequestKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    const char* first = hex.data() + 2 * i;
    std::from_chars(first, first + 2, key.bytes[i], 16);
  }
  return key;
}

runtime::CompilerVersion compiler_of(const std::string& text) {
  runtime::CompilerVersion version;
  std::sscanf(text.c_str(), "%d.%d.%d", &version.major, &version.minor, &version.build);
  return version;
}

/// A number of ptxas's report, which PTX does not have.
int number(const nlohmann::json& kernel, const char* name) {
  const nlohmann::json& value = kernel.at(name);
  return value.is_null() ? 0 : value.get<int>();
}

BundleRow row_of(std::uint64_t index, const runtime::BundleRecord& record, const runtime::BundleFacts& facts) {
  return {.index = index,
          .key = record.key.hex(),
          .descriptor = facts.descriptor,
          .architecture = facts.target,
          .entry_point = facts.entry_point,
          .code = record.code == codegen::Code::ptx ? "ptx" : "cubin",
          .compiler = record.compiler.text(),
          .library = facts.library,
          .registers = facts.resources.registers,
          .spill_store_bytes = facts.resources.spill_store_bytes,
          .spill_load_bytes = facts.resources.spill_load_bytes,
          .stack_bytes = facts.resources.stack_bytes,
          .static_shared_memory = facts.resources.static_shared_memory,
          .barriers = facts.resources.barriers,
          .bytes = record.bytes,
          .code_bytes = record.code_bytes,
          .hash = digits(record.code_hash)};
}

/// The entries of a cache folder, read and refused as an engine with the settings of the environment does.
std::vector<runtime::CacheEntry> cache_entries_in(const std::string& folder) {
  const std::string trust = runtime::Settings::from_environment().cache_trust;
  const runtime::DiskCache cache(folder, {}, {.trust = runtime::Trust::parse(trust), .is_system = true});
  if (cache.readable()) return cache.list();
  throw BadInput("cache folder " + folder,
                 cache.trouble().empty() ? "it has no entries of this version" : cache.trouble(),
                 "give another with --cache-dir");
}

std::string read_whole(const std::string& path) {
  const InputFile file(path);
  require_memory(file.bytes(), path);
  std::string content(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

/// Creates a file that must not exist yet, with the mode from the start.
void write_new_file(const std::string& path, std::string_view content, mode_t mode) {
  const runtime::File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.open() ||
      ::write(file.descriptor(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    throw BadInput(path, std::generic_category().message(errno), "give the path of a new file");
  }
}

/// Whoever can read the secret key can sign what users then execute.
void require_private(const std::string& key_file) {
  constexpr mode_t kOthers = S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  struct stat facts {};
  if (::stat(key_file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) || (facts.st_mode & kOthers) == 0) return;
  throw BadInput(key_file, "others can read or write this secret key",
                 "take the permission away (chmod 600), and make a new pair of keys if someone may have used it");
}

}  // namespace

nlohmann::ordered_json BundleRow::json() const {
  return {{"key", key},
          {"descriptor", descriptor},
          {"architecture", architecture},
          {"entry_point", entry_point},
          {"code", code},
          {"compiler", compiler},
          {"library", library},
          {"registers", registers},
          {"spill_store_bytes", spill_store_bytes},
          {"spill_load_bytes", spill_load_bytes},
          {"stack_bytes", stack_bytes},
          {"static_shared_memory", static_shared_memory},
          {"barriers", barriers},
          {"bytes", bytes},
          {"code_bytes", code_bytes},
          {"hash", hash}};
}

BundleFile::BundleFile(const std::string& path)
    : path_(path),
      bundle_(as_bad_input([&] { return std::make_unique<runtime::Bundle>(runtime::Bundle::open(path)); })) {}

BundleFile::~BundleFile() = default;
BundleFile::BundleFile(BundleFile&&) noexcept = default;

std::uint64_t BundleFile::bytes() const { return bundle_->bytes(); }
std::uint64_t BundleFile::entries() const { return bundle_->entries(); }
std::string BundleFile::root() const { return digits(bundle_->root()); }
std::string BundleFile::signer() const { return bundle_->signer() ? bundle_->signer()->hex() : ""; }

std::vector<BundleRow> BundleFile::rows() const {
  return as_bad_input([&] {
    std::vector<BundleRow> rows;
    for (std::uint64_t index = 0; index < bundle_->entries(); ++index) {
      const runtime::BundleRecord record = bundle_->record(index);
      rows.push_back(row_of(index, record, bundle_->facts(record)));
    }
    return rows;
  });
}

std::string BundleFile::code(const BundleRow& row) const {
  return as_bad_input([&] {
    const auto code = bundle_->load(bundle_->record(row.index)).artifact.cubin;
    return std::string(reinterpret_cast<const char*>(code.data()), code.size());
  });
}

std::string bundle_damage(const std::string& path) {
  const InputFile readable(path);
  try {
    runtime::Bundle::open(path).verify();
    return {};
  } catch (const Failure& failure) {
    return failure.rule();
  }
}

std::string checked_public_key(const std::string& text) {
  return as_bad_input([&] { return runtime::parse_public_key(text).hex(); });
}

std::string make_key_files(const std::string& name) {
  const runtime::KeyPair keys = as_bad_input([] { return runtime::make_keys(); });
  constexpr mode_t kPrivate = 0600;
  write_new_file(name + ".secret", keys.secret, kPrivate);
  write_new_file(name + ".public", keys.signer.hex() + "\n", kPublic);
  return keys.signer.hex();
}

void sign_bundle(const std::string& path, const std::string& key_file) {
  const std::string secret = read_whole(key_file);
  std::string bytes = read_whole(path);
  const std::string page = as_bad_input([&] {
    const auto bundle = runtime::Bundle::of_memory(path, std::as_bytes(std::span(bytes)));
    bundle.verify();
    runtime::BundleHeader header = bundle.header();
    header.signature = runtime::sign_root(bundle.root(), secret);
    return runtime::header_page(header);
  });
  require_private(key_file);
  OutputFile file(path);
  file.set_mode(kPublic);
  file.commit_text(bytes.replace(0, page.size(), page));
}

BundleBuilder::BundleBuilder() : writer_(std::make_unique<runtime::BundleWriter>()) {}
BundleBuilder::~BundleBuilder() = default;

void BundleBuilder::add_kernel(const std::string& descriptor, const nlohmann::json& kernel,
                               std::span<const std::byte> code) {
  runtime::Artifact artifact;
  artifact.key = key_of(kernel.at("request_key").get<std::string>());
  artifact.compiler = compiler_of(kernel.at("compiler").get<std::string>());
  artifact.descriptor = descriptor;
  artifact.target = kernel.at("architecture").get<std::string>();
  artifact.entry_point = kernel.at("entry_point").get<std::string>();
  artifact.resources = {
      number(kernel, "registers"),   number(kernel, "spill_store_bytes"),    number(kernel, "spill_load_bytes"),
      number(kernel, "stack_bytes"), number(kernel, "static_shared_memory"), number(kernel, "barriers")};
  artifact.inputs = runtime::parse_inputs(kernel.at("inputs").get<std::string>()).value();
  artifact.code = kernel.at("registers").is_null() ? codegen::Code::ptx : codegen::Code::cubin;
  artifact.cubin.assign(code.begin(), code.end());
  as_bad_input([&] {
    runtime::PackedEntry entry = runtime::pack(artifact, library_version());
    const std::lock_guard lock(mutex_);
    writer_->add(std::move(entry));
  });
}

void BundleBuilder::add(const BundleFile& file, const BundleRow& row) {
  as_bad_input([&] {
    runtime::PackedEntry entry = runtime::copied(*file.bundle_, file.bundle_->record(row.index));
    const std::lock_guard lock(mutex_);
    writer_->add(std::move(entry));
  });
}

std::vector<std::string> BundleBuilder::add_folder(const std::string& folder,
                                                   const std::vector<std::string>& architectures) {
  std::vector<std::string> faults;
  for (const runtime::CacheEntry& entry : as_bad_input([&] { return cache_entries_in(folder); })) {
    if (!entry.artifact) {
      faults.push_back(fmt::format("cache entry {}: {}", entry.id, entry.damage));
      continue;
    }
    const std::string& target = entry.artifact->target;
    if (!architectures.empty() && std::ranges::find(architectures, target) == architectures.end()) continue;
    try {
      runtime::PackedEntry packed = runtime::pack(*entry.artifact, library_version());
      const std::lock_guard lock(mutex_);
      writer_->add(std::move(packed));
    } catch (const Failure& failure) {
      faults.push_back(fmt::format("cache entry {}: {}", entry.id, failure.rule()));
    }
  }
  return faults;
}

std::uint64_t BundleBuilder::entries() const {
  const std::lock_guard lock(mutex_);
  return writer_->entries();
}

std::uint64_t BundleBuilder::write(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  OutputFile file(path);
  file.set_mode(kPublic);
  std::uint64_t bytes = 0;
  writer_->write([&](std::string_view part) {
    file.append(std::as_bytes(std::span(part)));
    bytes += part.size();
  });
  file.finish();
  return bytes;
}

}  // namespace cubit::tools
