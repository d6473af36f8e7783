// Implements the disk cache's guarantees about damaged files, crashes and unwritable folders.
#include "runtime/cache/disk_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "runtime/cache/files.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntrySuffix = ".cubit";
constexpr std::string_view kLockSuffix = ".lock";

std::string reason(int error) {
  return error == kNoRegularFile ? "it is not a regular file" : std::generic_category().message(error);
}

/// Removes a file, or an empty folder in a file's place. The content of a folder does not belong to the cache.
bool remove_entry(const fs::path& path) { return std::remove(path.c_str()) == 0; }

fs::path settled(const fs::path& folder) {
  if (folder.empty()) return folder;
  std::error_code error;
  // The process may change its working directory later, and the cache must stay where it was.
  fs::path result = fs::absolute(folder, error).lexically_normal();
  if (error) return folder;
  return result.has_filename() ? result : result.parent_path();
}

std::vector<fs::path> folder_content(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    paths.push_back(at->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_entry(const fs::path& path) { return path.filename().native().ends_with(kEntrySuffix); }

std::string entry_id(const fs::path& path) {
  const std::string name = path.filename().native();
  return name.substr(0, name.size() - kEntrySuffix.size());
}

/// Returns 3 for "v3", and -1 for any other name.
int schema_of_folder(const fs::path& folder) {
  const std::string name = folder.filename().native();
  int schema = -1;
  if (name.size() < 2 || name[0] != 'v') return -1;
  const auto [stop, error] = std::from_chars(name.data() + 1, name.data() + name.size(), schema);
  return error == std::errc() && stop == name.data() + name.size() ? schema : -1;
}

/// Returns the version in an entry's name, "…-nvrtc13.0.88". The version only orders candidates and proves nothing.
CompilerVersion version_in_id(const std::string& id) {
  CompilerVersion version;
  const char* at = id.data() + id.rfind("-nvrtc") + std::strlen("-nvrtc");
  const char* end = id.data() + id.size();
  for (int* part : {&version.major, &version.minor, &version.build}) {
    const auto [stop, error] = std::from_chars(at, end, *part);
    if (error != std::errc()) return version;
    at = stop < end ? stop + 1 : end;
  }
  return version;
}

/// Returns all files of this schema and older schemas. A newer cubit may share the folder, and its files are left
/// alone.
std::vector<fs::path> known_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::path& sub : folder_content(folder)) {
    const int schema = schema_of_folder(sub);
    if (schema < 0 || schema > kSchemaVersion) continue;
    for (fs::path& file : folder_content(sub)) files.push_back(std::move(file));
  }
  return files;
}

/// Says why the entry `artifact` must not lie at `path`, or returns "" if the place is right.
std::string misplacement(const Artifact& artifact, const fs::path& path) {
  if (schema_of_folder(path.parent_path()) != kSchemaVersion) {
    return fmt::format("it lies in the folder of schema {}", path.parent_path().filename().native());
  }
  const std::string id = artifact_id(artifact.key, artifact.compiler);
  return id == entry_id(path) ? std::string() : fmt::format("its content belongs to {}", id);
}

/// The content of an entry's file, or why there is none.
struct Content {
  std::string bytes;
  FileFacts file;
  int error = 0;       ///< the file cannot be read now
  std::string damage;  ///< the file will never be a valid entry
};

/// Checks the lengths at the start of the file before it allocates memory for the rest.
Content read_content(const fs::path& path) {
  Content content;
  File file;
  content.error = open_regular(path, file, content.file);
  if (content.error != 0) return content;
  content.error = read_some(file, kEntryPrefixBytes, content.bytes);
  if (content.error != 0) return content;
  content.damage = prefix_damage(content.bytes, content.file.size);
  if (content.damage.empty()) {
    content.error = read_some(file, static_cast<std::size_t>(content.file.size) - content.bytes.size(), content.bytes);
  }
  return content;
}

/// Says why `artifact` is not what a request needs, or returns "" if it is.
std::string mismatch(const Artifact& artifact, const RequestKey& key, const CompilerVersion* compiler,
                     const Wanted* wanted) {
  if (artifact.key != key || (compiler != nullptr && artifact.compiler != *compiler)) {
    return "its content belongs to " + artifact_id(artifact.key, artifact.compiler);
  }
  if (wanted == nullptr || (artifact.target == wanted->target && artifact.entry_point == wanted->entry_point))
    return {};
  return fmt::format("its content is {} for {}, and its key stands for {} for {}", artifact.entry_point,
                     artifact.target, wanted->entry_point, wanted->target);
}

CacheEntry examine(const fs::path& path, FileIdentity& identity) {
  CacheEntry entry;
  entry.id = entry_id(path);
  try {
    Content content = read_content(path);
    entry.bytes = content.file.size;
    identity = content.file.identity;
    entry.damage = content.damage;
    if (content.error != 0) {
      entry.damage = fmt::format("it cannot be read: {}", reason(content.error));
      entry.unreadable = content.error != kNoRegularFile;
    }
    if (!entry.damage.empty()) return entry;
    Artifact artifact = deserialise(content.bytes);
    entry.damage = misplacement(artifact, path);
    if (entry.damage.empty()) entry.artifact = std::move(artifact);
  } catch (const Failure& failure) {
    entry.damage = failure.rule();
  } catch (const std::bad_alloc&) {
    entry.damage = fmt::format("it cannot be read: {}", reason(ENOMEM));
    entry.unreadable = true;
  }
  return entry;
}

void remove_abandoned(const fs::path& path) {
  std::error_code ignored;
  if (is_staging_name(path.filename().native()) && is_abandoned(path)) fs::remove(path, ignored);
}

}  // namespace

DiskCache::DiskCache(const fs::path& folder, LogSink log, std::chrono::milliseconds lock_wait)
    : folder_(settled(folder)), log_(std::move(log)), lock_wait_(lock_wait) {
  if (folder_.empty()) return;
  trouble_ = prepare_folder();
  if (!trouble_.empty()) {
    warn(fmt::format("disk cache {}: {}; {}", folder_.string(), trouble_,
                     readable_ ? "entries are read, none are stored" : "going on without a disk cache"));
  }
}

fs::path DiskCache::files() const { return folder_ / fmt::format("v{}", kSchemaVersion); }

/// Sets readable_ and writable_, and returns what is wrong with the folder.
std::string DiskCache::prepare_folder() {
  const int error = create_folders(files());
  readable_ = ::access(files().c_str(), R_OK | X_OK) == 0;
  if (error != 0)
    return error == ENOTDIR ? "it, or a folder above it, is not a folder" : "it cannot be created: " + reason(error);
  writable_ = ::access(files().c_str(), W_OK | X_OK) == 0;
  return writable_ ? std::string() : "it cannot be written: " + reason(errno);
}

void DiskCache::warn(std::string_view line) const {
  if (log_) log_(LogLevel::warning, line);
}

DiskCache::Fate DiskCache::remove_if_still(const fs::path& path, const FileIdentity& identity) const {
  // The holder of the key's lock stores an entry that replaces this one. If there is no lock file, no process has begun
  // to store an entry. The function creates no lock file, because a damaged entry may have any name.
  fs::path lock_path = path;
  lock_path.replace_extension(kLockSuffix);
  std::error_code ignored;
  File held;
  if (fs::exists(lock_path, ignored) && lock_file(lock_path, held, std::chrono::milliseconds(0)) == EWOULDBLOCK)
    return is_still(path, identity) ? Fate::stays : Fate::replaced;
  Fate fate = Fate::replaced;
  if (is_still(path, identity)) fate = remove_entry(path) ? Fate::deleted : Fate::stays;
  unlock_file(held);
  return fate;
}

DiskCache::Fate DiskCache::discard(const fs::path& path, const FileIdentity& identity, std::string_view damage) const {
  const Fate fate = writable_ ? remove_if_still(path, identity) : Fate::stays;
  if (fate == Fate::replaced) return fate;
  if (fate == Fate::deleted) damaged_.fetch_add(1, std::memory_order_relaxed);
  warn(fmt::format("disk cache entry {} is damaged and {}: {}", path.string(),
                   fate == Fate::deleted ? "was deleted" : "could not be deleted", damage));
  return fate;
}

std::optional<Artifact> DiskCache::read(const fs::path& path, const RequestKey& key, const CompilerVersion* compiler,
                                        const Wanted* wanted) const {
  bool is_replaced = false;
  std::optional<Artifact> artifact = read_once(path, key, compiler, wanted, is_replaced);
  return is_replaced ? read_once(path, key, compiler, wanted, is_replaced) : std::move(artifact);
}

std::optional<Artifact> DiskCache::read_once(const fs::path& path, const RequestKey& key,
                                             const CompilerVersion* compiler, const Wanted* wanted,
                                             bool& is_replaced) const {
  std::string damage;
  FileIdentity identity;
  int error = 0;
  try {
    const Content content = read_content(path);
    identity = content.file.identity;
    error = content.error;
    damage = error == kNoRegularFile ? reason(error) : content.damage;
    if (error == 0 && damage.empty()) {
      Artifact artifact = deserialise(content.bytes);
      damage = mismatch(artifact, key, compiler, wanted);
      if (damage.empty()) return artifact;
    }
  } catch (const Failure& failure) {
    damage = failure.rule();
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error == ENOENT || error == ENOTDIR) return std::nullopt;
  if (!damage.empty()) {
    is_replaced = discard(path, identity, damage) == Fate::replaced;
    return std::nullopt;
  }
  warn(fmt::format("disk cache entry {} cannot be read: {}; it stays, and this request goes on without it",
                   path.string(), reason(error)));
  return std::nullopt;
}

std::optional<Artifact> DiskCache::load(const RequestKey& key, const CompilerVersion& compiler,
                                        const Wanted* wanted) const {
  if (!readable_) return std::nullopt;
  return read(files() / (artifact_id(key, compiler) + std::string(kEntrySuffix)), key, &compiler, wanted);
}

std::optional<Artifact> DiskCache::load_any(const RequestKey& key, int driver_major, const Wanted* wanted) const {
  if (!readable_) return std::nullopt;
  std::vector<std::pair<CompilerVersion, fs::path>> candidates;
  const std::string prefix = key.hex() + "-nvrtc";
  for (const fs::path& path : folder_content(files())) {
    if (!is_entry(path) || !path.filename().native().starts_with(prefix)) continue;
    const CompilerVersion version = version_in_id(entry_id(path));
    if (driver_major == 0 || version.major <= driver_major) candidates.emplace_back(version, path);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  for (const auto& [version, path] : candidates) {
    if (auto artifact = read(path, key, &version, wanted)) return artifact;
  }
  return std::nullopt;
}

bool DiskCache::store(const Artifact& artifact) const {
  if (!writable_) return false;
  const std::string id = artifact_id(artifact.key, artifact.compiler);
  const fs::path path = files() / (id + std::string(kEntrySuffix));
  std::string content;
  try {
    content = serialise(artifact);
  } catch (const std::exception& error) {  // the kernel itself is good
    warn(fmt::format("disk cache: {} was not stored: {}", id, error.what()));
    return false;
  }
  PublishError failure = publish_file(path, content);
  // Another process deleted the folder while this process runs. Create the folder again.
  if (failure.error == ENOENT && create_folders(files()) == 0) failure = publish_file(path, content);
  if (failure.error == 0) return true;
  warn(fmt::format("disk cache: {} was not stored: {} in {}: {}", artifact.descriptor, failure.step, files().string(),
                   reason(failure.error)));
  return false;
}

std::optional<DiskCache::Lock> DiskCache::lock(const std::string& id) const {
  if (!writable_) return std::nullopt;
  const fs::path path = files() / (id + std::string(kLockSuffix));
  File file;
  int error = lock_file(path, file, lock_wait_);
  if (error == ENOENT && create_folders(files()) == 0) error = lock_file(path, file, lock_wait_);
  if (error == 0) return std::optional<Lock>(std::in_place, file.release());
  if (error == EWOULDBLOCK) {
    warn(fmt::format("disk cache: another process has held {} for {} s; compiling without it", path.string(),
                     std::chrono::duration<double>(lock_wait_).count()));
    return std::nullopt;
  }
  if (log_) log_(LogLevel::debug, fmt::format("no lock on {}: {}", path.string(), reason(error)));
  return std::nullopt;
}

std::vector<CacheEntry> DiskCache::list() const {
  std::vector<CacheEntry> entries;
  for (const fs::path& path : known_files(folder_)) {
    FileIdentity identity;
    if (is_entry(path)) entries.push_back(examine(path, identity));
  }
  return entries;
}

std::vector<CacheEntry> DiskCache::remove_damaged() const {
  std::vector<CacheEntry> damaged;
  for (const fs::path& path : known_files(folder_)) {
    remove_abandoned(path);
    if (!is_entry(path)) continue;
    FileIdentity identity;
    CacheEntry entry = examine(path, identity);
    if (entry.damage.empty()) continue;
    const Fate fate = entry.unreadable ? Fate::stays : remove_if_still(path, identity);
    if (fate == Fate::replaced) continue;  // replaced by a good entry, because entries take their names as a whole
    entry.removed = fate == Fate::deleted;
    damaged.push_back(std::move(entry));
  }
  return damaged;
}

std::size_t DiskCache::clear() const {
  std::size_t count = 0;
  std::error_code ignored;
  for (const fs::path& path : known_files(folder_)) {
    remove_abandoned(path);
    if (is_entry(path) && fs::remove(path, ignored)) ++count;
  }
  return count;
}

DiskCache::Lock::~Lock() {
  // The lock file stays. Unlinking it would let two owners hold two locks of the same name.
  const File file(file_);
  unlock_file(file);
}

}  // namespace cubit::runtime
