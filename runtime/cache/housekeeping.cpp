// What the disk cache does outside of requests: lists, verifies, prunes and clears the folder.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "runtime/cache/disk_cache.hpp"
#include "runtime/cache/entry_files.hpp"
#include "runtime/cache/files.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
/// The time of the last use is exact to an hour, so that most hits write nothing.
constexpr std::int64_t kUseStep = 3600 * kNanosecondsPerSecond;
constexpr std::int64_t kPruneStep = 600 * kNanosecondsPerSecond;
/// Without limits only what dead processes left is deleted.
constexpr std::int64_t kCleanStep = 24 * 3600 * kNanosecondsPerSecond;

/// An entry's file, as prune() sees it.
struct Used {
  std::int64_t last = 0;
  std::uint64_t bytes = 0;
  fs::path path;
};

/// Seconds since `time`; 0 for a time in the future, as after a clock that was wrong.
std::chrono::seconds seconds_since(std::int64_t time, std::int64_t now) {
  return std::chrono::seconds(std::max<std::int64_t>(0, now - time) / kNanosecondsPerSecond);
}

/// What one walk over the folder finds.
struct Survey {
  std::vector<Used> entries;  ///< least recently used first
  std::uint64_t bytes = 0;    ///< of all entries
  std::vector<fs::path> staging_files;
  std::vector<fs::path> lock_files;
};

Survey survey(const fs::path& folder, const Trust& trust) {
  Survey found;
  for (fs::path& path : known_files(folder, trust, Layouts::current_and_older)) {
    FileFacts facts;
    if (is_staging(path)) {
      found.staging_files.push_back(std::move(path));
    } else if (is_lock(path)) {
      found.lock_files.push_back(std::move(path));
    } else if (is_entry(path) && read_facts(path, facts) == 0) {
      found.bytes += facts.size;
      found.entries.push_back({facts.modified, facts.size, std::move(path)});
    }
  }
  std::sort(found.entries.begin(), found.entries.end(), [](const Used& a, const Used& b) { return a.last < b.last; });
  return found;
}

CacheStats stats_of(const Survey& found, const fs::path& folder) {
  CacheStats stats;
  stats.entries = found.entries.size();
  stats.bytes = found.bytes;
  stats.staging_files = found.staging_files.size();
  stats.lock_files = found.lock_files.size();
  for (const Used& entry : found.entries) ++stats.compilers[version_in_id(entry_id(entry.path)).text()];
  if (!found.entries.empty()) stats.oldest_use = seconds_since(found.entries.front().last, file_clock_now());
  stats.free_bytes = free_bytes(folder);
  const int error = lock_error(schema_folder(folder) / kLockProbe);
  stats.has_locks = error == 0;
  if (error != 0) stats.lock_trouble = file_error(error);
  return stats;
}

bool is_gone(const fs::path& path) {
  FileFacts facts;
  return read_facts(path, facts) == ENOENT;
}

}  // namespace

CacheEntry DiskCache::examine(const fs::path& path, FileIdentity& identity) const {
  CacheEntry entry;
  entry.id = entry_id(path);
  try {
    Content content = read_content(path, options_.trust);
    entry.bytes = content.file.size;
    identity = content.file.identity;
    entry.damage = content.damage;
    if (content.error != 0) {
      entry.damage = fmt::format("it cannot be read: {}", file_error(content.error));
      entry.unreadable = content.error != kNoRegularFile;
    } else if (!content.distrust.empty()) {
      entry.damage = "it is not used: " + content.distrust;
      entry.unreadable = true;
    }
    if (!entry.damage.empty()) return entry;
    Artifact artifact = deserialise(content.bytes);
    entry.damage = misplacement(artifact, path);
    if (entry.damage.empty()) entry.artifact = std::move(artifact);
  } catch (const Failure& failure) {
    entry.damage = failure.rule();
  } catch (const std::bad_alloc&) {
    entry.damage = fmt::format("it cannot be read: {}", file_error(ENOMEM));
    entry.unreadable = true;
  }
  return entry;
}

void DiskCache::visit(const std::function<void(const Artifact&)>& visit) const {
  for (const CacheEntry& entry : list()) {
    if (entry.artifact) visit(*entry.artifact);
  }
}

std::vector<CacheEntry> DiskCache::list() const {
  std::vector<CacheEntry> entries;
  if (!readable_) return entries;
  for (const fs::path& path : known_files(folder_, options_.trust, Layouts::current)) {
    FileIdentity identity;
    if (is_entry(path)) entries.push_back(examine(path, identity));
  }
  return entries;
}

std::vector<CacheEntry> DiskCache::remove_damaged() const {
  std::vector<CacheEntry> damaged;
  if (!readable_) return damaged;
  for (const fs::path& path : known_files(folder_, options_.trust, Layouts::current)) {
    remove_leftover(path);
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
  std::size_t cleared = 0;
  if (!readable_) return cleared;
  for (const fs::path& path : known_files(folder_, options_.trust, Layouts::current_and_older)) {
    remove_leftover(path);
    if (is_entry(path) && remove_name(path)) ++cleared;
  }
  return cleared;
}

void DiskCache::note_use(const fs::path& path, std::int64_t last_use) const {
  if (!writable_) return;
  const std::int64_t now = file_clock_now();
  if (last_use > now || now - last_use > kUseStep) touch(path);
}

void DiskCache::hold(const Artifact& artifact) const {
  if (writable_) holder_.hold(schema_folder(folder_), artifact_id(artifact.key, artifact.compiler));
}

CacheStats DiskCache::stats() const {
  if (!readable_) return {};
  CacheStats stats = stats_of(survey(folder_, options_.trust), folder_);
  if (!writable_) {
    stats.has_locks = false;
    stats.lock_trouble.clear();
  }
  return stats;
}

CacheStats DiskCache::prune(const CacheLimits& limits) const {
  if (!writable_) return stats();
  // Processes that prune at the same time would delete more than the limits ask for.
  const fs::path lock_path = schema_folder(folder_) / kPruneLock;
  File lock;
  if (lock_file(lock_path, lock, {}) == EWOULDBLOCK) return stats();
  Survey found = survey(folder_, options_.trust);
  std::erase(found.lock_files, lock_path);
  std::erase_if(found.lock_files, remove_leftover);
  const std::set<std::string> held = held_ids(found.lock_files);
  CacheStats removed;
  const std::int64_t now = file_clock_now();
  std::vector<Used> left;
  for (Used& entry : found.entries) {
    const bool is_old = limits.age.count() != 0 && seconds_since(entry.last, now) > limits.age;
    const bool is_surplus = is_old || (limits.bytes != 0 && found.bytes > limits.bytes);
    FileFacts facts;
    // Somebody may have used or replaced the entry meanwhile.
    const bool is_due = is_surplus && !held.contains(entry_id(entry.path)) &&
                        (read_facts(entry.path, facts) != 0 || facts.modified == entry.last);
    if (is_due && remove_if_still(entry.path, facts.identity) == Fate::deleted) {
      found.bytes -= entry.bytes;
      ++removed.removed;
      removed.removed_bytes += entry.bytes;
    } else if (is_due && is_gone(entry.path)) {  // another process has deleted the entry
      found.bytes -= entry.bytes;
    } else {
      left.push_back(std::move(entry));  // not due, or held, or its key is being compiled
    }
  }
  found.entries = std::move(left);
  std::erase_if(found.staging_files, remove_leftover);
  unlock_and_remove(lock_path, lock);
  CacheStats stats = stats_of(found, folder_);
  stats.removed = removed.removed;
  stats.removed_bytes = removed.removed_bytes;
  return stats;
}

/// A file's time says when a process pruned the folder last, so that processes share the work.
void DiskCache::prune_if_due() const {
  if (!writable_) return;
  const std::int64_t step = options_.limits.any() ? kPruneStep : kCleanStep;
  try {
    const fs::path marker = schema_folder(folder_) / kPruneMarker;
    FileFacts facts;
    const std::int64_t now = file_clock_now();
    if (read_facts(marker, facts) == 0 && facts.modified <= now && now - facts.modified < step) return;
    if (publish_file(marker, "").error != 0) return;
    if (options_.limits.any()) {
      prune(options_.limits);
    } else {  // reads names only
      for (const fs::path& path : known_files(folder_, options_.trust, Layouts::current_and_older))
        remove_leftover(path);
    }
  } catch (const std::exception& error) {
    warn(fmt::format("disk cache {}: it was not pruned: {}", folder_.string(), error.what()));
  }
}

}  // namespace cubit::runtime
