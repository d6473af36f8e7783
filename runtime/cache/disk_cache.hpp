// The disk cache: one file per artifact, published whole or not at all, verified on every load.
//
// Readers never lock. A writer stages into a temporary file of the same folder, fsyncs, renames. Who compiles a key
// holds an flock on "<artifact id>.lock", a file that is never unlinked, so that a dead owner's lock is freed by the
// kernel; where locks are not supported the compile goes ahead unlocked and the rename decides. Files lie in
// "<folder>/v<schema>/"; what an older cubit left in "v0" … is never read, and reported by list() as damage.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/artifact.hpp"
#include "runtime/log.hpp"

namespace cubit::runtime {

struct FileIdentity;

struct CacheEntry {
  std::string id;  ///< artifact id
  std::uint64_t bytes = 0;
  std::optional<Artifact> artifact;  ///< empty if the file is damaged or cannot be read
  std::string damage;                ///< why
  bool unreadable = false;           ///< `damage` says why it could not be read now: it may be good
  bool removed = false;              ///< by remove_damaged
};

/// What a request takes from an entry beside its key: a made-up file may have the key's name and a good hash.
struct Wanted {
  std::string target;
  std::string entry_point;
};

/// How long a request waits for another process that compiles its kernel before it compiles by itself.
inline constexpr std::chrono::milliseconds kLockWait = std::chrono::minutes(2);

class DiskCache {
 public:
  /// Creates `folder` (mode 0700) if it is missing. A folder that cannot be created, is not a folder or cannot be
  /// written gives a cache that is disabled, after one warning to `log`; an unwritable folder that holds entries is
  /// still read.
  DiskCache(const std::filesystem::path& folder, LogSink log, std::chrono::milliseconds lock_wait = kLockWait);

  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// Why the folder is disabled or read-only; empty if all is well.
  const std::string& trouble() const { return trouble_; }

  /// A verified entry, or nothing. A damaged file, or one whose content belongs to another key, is deleted and reported
  /// to the log as a warning, unless another has taken its place, which is then read; it is never fatal. A file that
  /// cannot be read now (too many open files, no memory, a failing disk) is a warning and stays: it may be good.
  std::optional<Artifact> load(const RequestKey& key, const CompilerVersion& compiler,
                               const Wanted* wanted = nullptr) const;
  /// For machines without a compiler: the entry of the newest compiler that stored this key.
  /// `driver_major`: entries of a compiler newer than that are passed over; 0 takes any.
  std::optional<Artifact> load_any(const RequestKey& key, int driver_major = 0, const Wanted* wanted = nullptr) const;

  /// Stages, fsyncs, renames. A failure (full disk, folder gone, no memory) is a warning and leaves no partial entry;
  /// never throws.
  bool store(const Artifact& artifact) const;

  /// Exclusive right to compile one artifact; empty where locks are not supported or the folder is not writable. Waits
  /// for the one who has it, `lock_wait` at most: after that a warning and no lock, so that a stopped process stops no
  /// other.
  class Lock;
  std::optional<Lock> lock(const std::string& id) const;

  std::vector<CacheEntry> list() const;  ///< every entry, verified
  /// What list() finds damaged, each with whether it could be deleted, or unreadable: those stay. Stale staging files
  /// are deleted too.
  std::vector<CacheEntry> remove_damaged() const;
  /// Deletes every entry, and stale staging files; lock files stay. Returns how many entries.
  std::size_t clear() const;

  /// Entries that load and load_any found damaged and deleted, since construction.
  std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }

 private:
  std::filesystem::path files() const;
  std::string prepare_folder();
  void warn(std::string_view line) const;
  std::optional<Artifact> read(const std::filesystem::path& path, const RequestKey& key,
                               const CompilerVersion* compiler, const Wanted* wanted) const;
  /// What became of a damaged entry. Replaced: another stands there, which nobody has read yet.
  enum class Fate { deleted, stays, replaced };
  /// Of the file that was read and no other: whoever compiles the key may have stored a good entry since.
  Fate remove_if_still(const std::filesystem::path& path, const FileIdentity& identity) const;
  Fate discard(const std::filesystem::path& path, const FileIdentity& identity, std::string_view damage) const;
  std::optional<Artifact> read_once(const std::filesystem::path& path, const RequestKey& key,
                                    const CompilerVersion* compiler, const Wanted* wanted, bool& is_replaced) const;

  std::filesystem::path folder_;
  LogSink log_;
  std::chrono::milliseconds lock_wait_;
  bool readable_ = false;
  bool writable_ = false;
  std::string trouble_;
  mutable std::atomic<std::uint64_t> damaged_{0};
};

class DiskCache::Lock {
 public:
  explicit Lock(int file) : file_(file) {}
  Lock(Lock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  Lock& operator=(Lock&&) = delete;
  ~Lock();

 private:
  int file_;
};

}  // namespace cubit::runtime
