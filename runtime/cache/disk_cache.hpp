// The disk cache: one file per artifact. A file is published as a whole or not at all, and is verified on every load.
//
// Readers never lock. A writer writes a temporary file in the same folder, calls fsync and renames the file. The
// process that compiles a key holds an flock on "<artifact id>.machine<number>.lock", which only processes of its
// machine use, and then on "<artifact id>.lock". The process deletes the files at the end. The operating system frees
// the locks of a dead owner. On a network file system whose locks hold on one machine only, at most one process of each
// machine compiles a key. On file systems without locks the compile runs unlocked and the rename decides which file
// stays.
//
// entry_files.hpp says where the files lie. Entries of older layouts ("v0", "v1") are never read, but older versions of
// cubit may still use them: only clear() and prune() delete them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/artifact.hpp"
#include "runtime/cache/files.hpp"
#include "runtime/cache/holder.hpp"
#include "runtime/cache/trust.hpp"
#include "runtime/log.hpp"
#include "runtime/store.hpp"

namespace cubit::runtime {

/// The report of list() about one cache file.
struct CacheEntry {
  std::string id;  ///< artifact id
  std::uint64_t bytes = 0;
  std::optional<Artifact> artifact;  ///< empty if the file is damaged or cannot be read
  std::string damage;                ///< what is wrong with the file; "" if nothing is
  bool unreadable = false;           ///< the file could not be read now, or its owner is not trusted, for the reason in
                                     ///< `damage`; its content may be good
  bool removed = false;              ///< remove_damaged() deleted the file
};

/// How long a request waits for another process that compiles the same kernel. After that the request compiles by
/// itself.
inline constexpr std::chrono::milliseconds kLockWait = std::chrono::minutes(2);
/// After this time of waiting, the request says for whom it waits.
inline constexpr std::chrono::milliseconds kLockPatience = std::chrono::seconds(2);

/// What a cache folder may hold; 0 means no limit.
struct CacheLimits {
  std::uint64_t bytes = 0;
  std::chrono::seconds age{0};  ///< since the last use
  bool any() const { return bytes != 0 || age.count() != 0; }
};

/// The report of prune() and stats().
struct CacheStats {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t removed = 0;  ///< entries that prune() deleted
  std::uint64_t removed_bytes = 0;
  std::uint64_t staging_files = 0;                 ///< being written, or left by a dead process
  std::uint64_t lock_files = 0;                    ///< held, or left by a dead process
  std::chrono::seconds oldest_use{0};              ///< time since the use of the entry that was used longest ago
  std::map<std::string, std::uint64_t> compilers;  ///< entries by the compiler's version
  std::uint64_t free_bytes = 0;                    ///< on the folder's file system
  bool has_locks = false;                          ///< a file in the folder can be locked
  std::string lock_trouble;                        ///< why not; "" if it can, or if the folder is not writable
};

struct DiskCacheOptions {
  std::chrono::milliseconds lock_wait = kLockWait;
  std::chrono::milliseconds lock_patience = kLockPatience;
  Trust trust = {};
  CacheLimits limits = {};  ///< prune_if_due() prunes the folder to these limits
  bool is_system = false;   ///< the folder is only read, and not made if it does not exist
};

class DiskCache final : public Store {
 public:
  /// Creates `folder` (mode 0700) if it does not exist. If the folder cannot be created, is not a folder, cannot be
  /// read or written, or is not trusted, the cache is disabled after one warning to `log`. An unwritable folder with
  /// entries is still read.
  DiskCache(const std::filesystem::path& folder, LogSink log, DiskCacheOptions options = {});

  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// Why the folder is disabled or read-only; "" if the folder is usable.
  const std::string& trouble() const { return trouble_; }

  /// A damaged file, or a file whose content belongs to another key, is deleted and logged as a warning. If another
  /// file has replaced the damaged file meanwhile, find() reads the new file. A file that cannot be read now (too many
  /// open files, no memory, a failing disk) or that is not trusted is logged as a warning and stays. An older
  /// compiler's entry answers if the newest is not usable.
  std::optional<Artifact> find(const StoreRequest& request) const override;
  bool holds(const StoreRequest& request) const override;

  /// Writes a temporary file, calls fsync and renames the file. A failure (full disk, missing folder, no memory) is
  /// logged as a warning and leaves no partial entry. Deletes what dead processes left in the same subfolder.
  bool publish(const Artifact& artifact) const override;
  /// Notes that this process holds the code of the entry until the cache is destroyed: prune() leaves the entry.
  void hold(const Artifact& artifact) const;
  void visit(const std::function<void(const Artifact&)>& visit) const override;
  StoreReport report() const override;

  /// Takes the exclusive right to compile one artifact. Returns nothing if locks are not supported or the folder is not
  /// writable. The call waits at most `lock_wait` for the current owner and then logs a warning and returns nothing, so
  /// that a stopped process blocks no other process. After `lock_patience` it logs a warning and calls `impatient`.
  class Lock;
  std::optional<Lock> lock(const std::string& id, const std::function<void()>& impatient = {}) const;

  std::vector<CacheEntry> list() const;  ///< all entries of this layout, verified
  /// Deletes the entries that list() finds damaged, and the staging and lock files of dead processes. Returns the bad
  /// entries; `removed` says whether the deletion succeeded. Unreadable entries stay.
  std::vector<CacheEntry> remove_damaged() const;
  /// Deletes all entries, also those of older layouts, and the staging and lock files of dead processes. Returns the
  /// number of deleted entries.
  std::size_t clear() const;

  /// Deletes the entries that were not used for limits.age, then the least recently used ones until limits.bytes
  /// suffice, and the staging and lock files of dead processes. An entry whose key is being compiled, or that a process
  /// holds, stays. Deletes nothing while another process prunes.
  CacheStats prune(const CacheLimits& limits) const;
  /// Prunes to the limits of the options, at most once in ten minutes for all processes. Without limits only the files
  /// of dead processes are deleted, at most once a day. A failure is logged as a warning. Call this function after a
  /// compile, and without a lock, because it looks at all files.
  void prune_if_due() const;
  /// Reads the names and sizes of all files, and no content.
  CacheStats stats() const;

  /// Number of damaged entries that find() deleted since construction.
  std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }

 private:
  std::string prepare_folder();
  int make_subfolder(std::string_view id) const;
  int lock_one(const std::string& id, const std::string& mark, const LockWait& wait, Lock& lock) const;
  void warn(std::string_view line) const;
  std::vector<std::filesystem::path> candidates(const StoreRequest& request) const;
  std::optional<Artifact> read(const std::filesystem::path& path, const StoreRequest& request) const;
  /// What happened to a damaged file. `replaced` means that another file, which nobody has read yet, has taken its
  /// name.
  enum class Fate { deleted, stays, replaced };
  /// Deletes the file only if it is still the file that was read. The process that compiles the key may have stored a
  /// good entry meanwhile.
  Fate remove_if_still(const std::filesystem::path& path, const FileIdentity& identity) const;
  Fate discard(const std::filesystem::path& path, const FileIdentity& identity, std::string_view damage,
               const StoreRequest& request) const;
  std::optional<Artifact> read_once(const std::filesystem::path& path, const StoreRequest& request,
                                    bool& is_replaced) const;
  void note_use(const std::filesystem::path& path, std::int64_t last_use) const;
  CacheEntry examine(const std::filesystem::path& path, FileIdentity& identity) const;

  std::filesystem::path folder_;
  LogSink log_;
  DiskCacheOptions options_;
  mutable Holder holder_;
  bool readable_ = false;
  bool writable_ = false;
  std::string trouble_;
  mutable std::atomic<std::uint64_t> hits_{0};
  mutable std::atomic<std::uint64_t> misses_{0};
  mutable std::atomic<std::uint64_t> refused_{0};
  mutable std::atomic<std::uint64_t> published_{0};
  mutable std::atomic<std::uint64_t> damaged_{0};
};

/// The exclusive right to compile one artifact: the locks of this machine's processes and of all processes. Deleting
/// the lock files at the end keeps the folder free of them. A waiting process notices the deletion.
class DiskCache::Lock {
 public:
  Lock(Lock&&) noexcept = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  Lock& operator=(Lock&&) = delete;
  ~Lock();

 private:
  friend class DiskCache;
  struct Part {
    std::filesystem::path path;
    File file;
  };

  Lock() = default;

  std::vector<Part> parts_;
};

}  // namespace cubit::runtime
