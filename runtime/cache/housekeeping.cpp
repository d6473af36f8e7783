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

/// Counts the files of the folder, and returns the entries, least recently used first.
std::vector<Used> survey(const fs::path& folder, CacheStats& stats) {
  std::vector<Used> entries;
  for (const fs::path& path : known_files(folder)) {
    FileFacts facts;
    const std::string& name = path.native();
    if (is_staging_name(name)) ++stats.staging_files;
    if (name.ends_with(kLockSuffix)) ++stats.lock_files;
    if (!is_entry(path) || read_facts(path, facts) != 0) continue;
    ++stats.entries;
    stats.bytes += facts.size;
    ++stats.compilers[version_in_id(entry_id(path)).text()];
    entries.push_back({facts.modified, facts.size, path});
  }
  std::sort(entries.begin(), entries.end(), [](const Used& a, const Used& b) { return a.last < b.last; });
  if (!entries.empty()) stats.oldest_use = seconds_since(entries.front().last, file_clock_now());
  stats.free_bytes = free_bytes(folder);
  return entries;
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
  for (const fs::path& path : known_files(folder_)) {
    FileIdentity identity;
    if (is_entry(path)) entries.push_back(examine(path, identity));
  }
  return entries;
}

std::vector<CacheEntry> DiskCache::remove_damaged() const {
  std::vector<CacheEntry> damaged;
  if (!readable_) return damaged;
  for (const fs::path& path : known_files(folder_)) {
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
  std::error_code ignored;
  if (!readable_) return cleared;
  for (const fs::path& path : known_files(folder_)) {
    remove_leftover(path);
    if (is_entry(path) && fs::remove(path, ignored)) ++cleared;
  }
  return cleared;
}

void DiskCache::note_use(const fs::path& path, std::int64_t last_use) const {
  if (!writable_) return;
  const std::int64_t now = file_clock_now();
  if (last_use > now || now - last_use > kUseStep) touch(path);
}

CacheStats DiskCache::stats() const {
  CacheStats stats;
  if (!readable_) return stats;
  survey(folder_, stats);
  stats.has_locks = writable_ && supports_locks(schema_folder(folder_));
  return stats;
}

CacheStats DiskCache::prune(const CacheLimits& limits) const {
  CacheStats found;
  CacheStats result;
  if (!writable_) return stats();
  const std::vector<Used> entries = survey(folder_, found);
  const std::int64_t now = file_clock_now();
  std::uint64_t bytes = found.bytes;
  for (const Used& entry : entries) {
    const bool is_old = limits.age.count() != 0 && seconds_since(entry.last, now) > limits.age;
    if (!is_old && (limits.bytes == 0 || bytes <= limits.bytes)) break;  // the others were used later
    FileFacts facts;
    // Somebody used or replaced the entry meanwhile, or is compiling its key.
    if (read_facts(entry.path, facts) != 0 || facts.modified != entry.last) continue;
    if (remove_if_still(entry.path, facts.identity) != Fate::deleted) continue;
    bytes -= entry.bytes;
    ++result.removed;
    result.removed_bytes += entry.bytes;
  }
  for (const fs::path& path : known_files(folder_)) remove_leftover(path);
  CacheStats now_there = stats();
  now_there.removed = result.removed;
  now_there.removed_bytes = result.removed_bytes;
  return now_there;
}

/// A file's time says when a process pruned the folder last, so that processes share the work.
void DiskCache::prune_if_due() const {
  if (!options_.limits.any()) return;
  const fs::path marker = schema_folder(folder_) / "pruned";
  FileFacts facts;
  const std::int64_t now = file_clock_now();
  if (read_facts(marker, facts) == 0 && facts.modified <= now && now - facts.modified < kPruneStep) return;
  if (publish_file(marker, "").error != 0) return;
  prune(options_.limits);
}

}  // namespace cubit::runtime
