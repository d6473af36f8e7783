// The few file operations that a cache's promises rest on. Every function returns 0 or an errno; none throws for what a
// file system can do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace cubit::runtime {

/// An open file descriptor and its owner.
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

/// The folder and every missing one above it, mode 0700. A folder that exists keeps its mode. ENOTDIR if `path` or one
/// above it is something else.
int create_folders(const std::filesystem::path& path);

/// Which file a name stands for. One that takes its place has another, even if it gets the same number.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  std::int64_t changed = 0;  ///< nanoseconds

  bool operator==(const FileIdentity&) const = default;
};

struct FileFacts {
  std::uint64_t size = 0;
  FileIdentity identity;
};

/// Opens a file to be read. ENOENT if there is none; a fifo or folder of that name is kNoRegularFile, never a wait.
int open_regular(const std::filesystem::path& path, File& file, FileFacts& facts);

/// Whether the name still stands for that file.
bool is_still(const std::filesystem::path& path, const FileIdentity& identity);

/// Appends what the file still holds, at most `most` bytes. ENOMEM if they have no room.
int read_some(const File& file, std::size_t most, std::string& content);

/// No errno of reading a file: what has this one can only be wrong, any other may be the machine's bad hour.
inline constexpr int kNoRegularFile = -1;

/// What publish_file is doing when it fails: for the message.
struct PublishError {
  int error = 0;
  const char* step = "";
};

/// The name becomes the whole content or stays what it was, also if the machine stops: stages into a file beside it,
/// fsyncs, renames. Mode 0644: who may enter the folder may read. A failure removes the staged file. The folder is not
/// synced: a power cut may undo the rename, which a cache cannot tell from a miss, and a second fsync would double the
/// price of a store.
PublishError publish_file(const std::filesystem::path& path, std::string_view content);

/// True for the name of a file that publish_file stages into.
bool is_staging_name(std::string_view name);

/// True if nobody is writing the staged file any more: its writer holds a lock on it. Where locks are not supported,
/// if it is older than an hour.
bool is_abandoned(const std::filesystem::path& staged);

/// Opens (makes) `path` and waits for the exclusive lock on it, EWOULDBLOCK if somebody has it for longer than `wait`.
/// The lock goes with the file, also if its owner dies; unlock_file is for owners that fork.
int lock_file(const std::filesystem::path& path, File& file, std::chrono::milliseconds wait);

/// Frees the lock also where a child process holds a copy of the descriptor; closing alone does not.
void unlock_file(const File& file);

}  // namespace cubit::runtime
