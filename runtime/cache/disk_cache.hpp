// The disk cache: one file per artifact. A file is published as a whole or not at all, and is verified on every load.
//
// Readers never lock. A writer writes a temporary file in the same folder, calls fsync and renames the file. The
// process that compiles a key holds an flock on "<artifact id>.lock". Lock files are never unlinked, so the operating
// system frees the lock of a dead owner. On file systems without locks the compile runs unlocked and the rename decides
// which file stays.
//
// Files lie in "<folder>/v<schema>/". Files of older schemas ("v0" …) are never read, and list() reports them as
// damage.
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

/// The report of list() about one cache file.
struct CacheEntry {
  std::string id;  ///< artifact id
  std::uint64_t bytes = 0;
  std::optional<Artifact> artifact;  ///< empty if the file is damaged or cannot be read
  std::string damage;                ///< what is wrong with the file; "" if nothing is
  bool unreadable = false;           ///< the file could not be read now, for the reason in `damage`; its content may be
                                     ///< good
  bool removed = false;              ///< remove_damaged() deleted the file
};

/// Facts that an entry must match in addition to its key. A forged file may have the right key name and a good hash.
struct Wanted {
  std::string target;
  std::string entry_point;
};

/// How long a request waits for another process that compiles the same kernel. After that the request compiles by
/// itself.
inline constexpr std::chrono::milliseconds kLockWait = std::chrono::minutes(2);

class DiskCache {
 public:
  /// Creates `folder` (mode 0700) if it does not exist. If the folder cannot be created, is not a folder or cannot be
  /// written, the cache is disabled after one warning to `log`. An unwritable folder with entries is still read.
  DiskCache(const std::filesystem::path& folder, LogSink log, std::chrono::milliseconds lock_wait = kLockWait);

  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// Why the folder is disabled or read-only; "" if the folder is usable.
  const std::string& trouble() const { return trouble_; }

  /// Returns a verified entry, or nothing. A damaged file, or a file whose content belongs to another key, is deleted
  /// and logged as a warning. If another file has replaced the damaged file meanwhile, load() reads the new file. A
  /// file that cannot be read now (too many open files, no memory, a failing disk) is logged as a warning and stays,
  /// because its content may be good. No damage is fatal.
  std::optional<Artifact> load(const RequestKey& key, const CompilerVersion& compiler,
                               const Wanted* wanted = nullptr) const;
  /// For machines without a compiler: returns the entry of the newest compiler that stored this key. Entries of
  /// compilers newer than `driver_major` are ignored; 0 accepts every compiler.
  std::optional<Artifact> load_any(const RequestKey& key, int driver_major = 0, const Wanted* wanted = nullptr) const;

  /// Writes a temporary file, calls fsync and renames the file. A failure (full disk, missing folder, no memory) is
  /// logged as a warning and leaves no partial entry. Never throws.
  bool store(const Artifact& artifact) const;

  /// Takes the exclusive right to compile one artifact. Returns nothing if locks are not supported or the folder is not
  /// writable. The call waits at most `lock_wait` for the current owner and then logs a warning and returns nothing, so
  /// that a stopped process blocks no other process.
  class Lock;
  std::optional<Lock> lock(const std::string& id) const;

  std::vector<CacheEntry> list() const;  ///< all entries, verified
  /// Deletes the entries that list() finds damaged, and stale temporary files. Returns the bad entries; `removed` says
  /// whether the deletion succeeded. Unreadable entries stay.
  std::vector<CacheEntry> remove_damaged() const;
  /// Deletes all entries and stale temporary files, and returns the number of deleted entries. Lock files stay.
  std::size_t clear() const;

  /// Number of damaged entries that load() and load_any() deleted since construction.
  std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }

 private:
  std::filesystem::path files() const;
  std::string prepare_folder();
  void warn(std::string_view line) const;
  std::optional<Artifact> read(const std::filesystem::path& path, const RequestKey& key,
                               const CompilerVersion* compiler, const Wanted* wanted) const;
  /// What happened to a damaged file. `replaced` means that another file, which nobody has read yet, has taken its
  /// name.
  enum class Fate { deleted, stays, replaced };
  /// Deletes the file only if it is still the file that was read. The process that compiles the key may have stored a
  /// good entry meanwhile.
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
