// File operations of the disk cache. Every function returns 0 or an errno value; file-system errors never throw.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/cache/trust.hpp"

namespace cubit::runtime {

/// An open file descriptor with one owner.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(other.release()) {}
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  bool open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  int release();  ///< gives up ownership
  int close();    ///< some file systems report a failed write only here

 private:
  int descriptor_;
};

/// Creates the folder and every missing parent folder with mode 0700. An existing folder keeps its mode. Returns
/// ENOTDIR if `path` or a parent exists and is not a folder.
int create_folders(const std::filesystem::path& path);

/// Creates `path`, whose parent must exist, with the mode of its parent, whatever the umask is. In a cache that users
/// share, the folders below are then as shared as the cache's folder. Never changes the mode of something that another
/// user has put in the new folder's place.
int create_folder_like_parent(const std::filesystem::path& path);

/// Identifies the file behind a name. A file that replaces another file has a different identity, even if it gets the
/// same inode number.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  std::int64_t changed = 0;  ///< time of the last change in nanoseconds

  bool operator==(const FileIdentity&) const = default;
};

struct FileFacts {
  std::uint64_t size = 0;
  FileIdentity identity;
  Ownership ownership;
  std::int64_t modified = 0;  ///< time of the last modification in nanoseconds since 1970
  bool is_folder = false;
};

/// Nanoseconds since 1970 by the clock of file times.
std::int64_t file_clock_now();

/// Reads size, owner and times of what `path` names, without opening it. Does not follow a link.
int read_facts(const std::filesystem::path& path, FileFacts& facts);

/// Deletes a file or an empty folder. Returns true if it did.
bool remove_name(const std::filesystem::path& path);

/// Sets the time of the last modification to now. A failure does no harm.
void touch(const std::filesystem::path& path);

/// Bytes that the user may still write on the file system of `path`; 0 if that is not known.
std::uint64_t free_bytes(const std::filesystem::path& path);

/// Returns 0 if a file in `folder` can be locked, and else why not: lacks_locks() says whether the file system is the
/// reason. Makes and deletes the staging file of `path`.
int lock_error(const std::filesystem::path& path);

/// True for the errors of flock that mean that the file system has no locks.
bool lacks_locks(int error);

/// Reads owner and permissions of the file or folder that `path` names.
int read_ownership(const std::filesystem::path& path, Ownership& ownership);

/// Opens a file for reading. Returns ENOENT if there is no file, and kNoRegularFile for a fifo, a folder or a link; the
/// call never blocks. The owner of a link's target says nothing about who put the link there.
int open_regular(const std::filesystem::path& path, File& file, FileFacts& facts);

/// True if `path` still names the file with this identity.
bool is_still(const std::filesystem::path& path, const FileIdentity& identity);

/// Appends the remaining content of the file to `content`, at most `most` bytes. Returns ENOMEM if memory does not
/// suffice.
int read_some(const File& file, std::size_t most, std::string& content);

/// Returned instead of an errno for a name that is not a regular file. Such a file is certainly wrong. Any other errno
/// may be a temporary problem of the machine.
inline constexpr int kNoRegularFile = -1;

/// The step in which publish_file failed, for the message.
struct PublishError {
  int error = 0;
  const char* step = "";
};

/// Publishes a file atomically: the name stands for the whole new content or for the old file, even after a crash. The
/// function writes a temporary file in the same folder, calls fsync and renames the file. The mode is 0644, whatever
/// the umask is, because the folder's mode decides who may read. A failure removes the temporary file. The folder is
/// not synced: a power failure may undo the rename, which is a cache miss like any other, and a second fsync would
/// double the cost of a store.
PublishError publish_file(const std::filesystem::path& path, std::string_view content);

/// True for the name of a temporary file of publish_file.
bool is_staging_name(std::string_view name);

/// The name that the temporary file `name` stands for, or "" if `name` is not one.
std::string_view staged_name(std::string_view name);

/// A number that the processes share that run under the same kernel of an operating system, also in containers, and in
/// which machines differ: 32 bits of Linux's boot id. 0 if the boot id cannot be read.
std::uint32_t this_machine();

/// True if the decimal digits are those of this_machine().
bool is_this_machine(std::string_view number);

/// True if nobody has modified the file or folder for `age`.
bool is_older_than(const std::filesystem::path& path, std::chrono::nanoseconds age);

/// True if nobody has modified the file or folder for an hour. Neither a store nor a compilation takes as long.
bool is_abandoned_by_age(const std::filesystem::path& path);

/// True if no process is writing the temporary file any more. A writer holds a lock on its temporary file, and the name
/// says on which machine the writer runs. On a network file system whose locks hold on one machine only, the lock says
/// nothing on other machines. There a file older than an hour counts as abandoned. So does such a file where locks are
/// not supported, and a temporary folder.
bool is_abandoned(const std::filesystem::path& staged);

/// How long lock_file() waits for another owner, and what it does meanwhile.
struct LockWait {
  std::chrono::milliseconds most{0};
  std::chrono::milliseconds patience{0};  ///< after this time `impatient` is called, once
  std::function<void()> impatient = {};
};

/// Opens or creates `path`, with mode 0666, and waits for an exclusive lock. Returns EWOULDBLOCK if another process
/// holds the lock for too long, and EACCES if this user cannot lock the file: another user lets nobody open it, or it
/// is a link. Deletes the file only if this call made it and the file system has no locks. The lock ends when the file
/// is closed or its owner dies. Owners that fork need unlock_and_remove.
int lock_file(const std::filesystem::path& path, File& file, const LockWait& wait);

/// Deletes the lock file that `file` has locked, and then frees the lock, even if a child process holds a copy of the
/// descriptor. A process that waits for the deleted file notices that and makes a new one.
void unlock_and_remove(const std::filesystem::path& path, const File& file);

/// Deletes the lock file unless a process holds the lock. Returns true if the file is gone.
bool remove_free_lock(const std::filesystem::path& path);

}  // namespace cubit::runtime
