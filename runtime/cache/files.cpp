// POSIX implementation of the file operations; files.hpp states their guarantees.
#include "runtime/cache/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace cubit::runtime {
namespace {

constexpr std::string_view kStagingSuffix = ".staging";
constexpr auto kAbandonedAfter = std::chrono::hours(1);
constexpr std::chrono::milliseconds kLongestPause(20);

/// Repeats a call that a signal interrupted.
template <class Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// A network file system says ESTALE if it knew the path by a file, or a folder, that another machine has replaced.
int open_file(const std::filesystem::path& path, int flags, File& file, mode_t mode = 0600) {
  constexpr int kAttempts = 3;
  int error = ESTALE;
  for (int attempt = 0; attempt < kAttempts && error == ESTALE; ++attempt) {
    file = File(retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
    error = file.open() ? 0 : errno;
  }
  return error;
}

int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = retried([&] { return ::write(descriptor, content.data(), content.size()); });
    if (written < 0) return errno;
    // A write of zero bytes without an error would repeat forever.
    if (written == 0) return EIO;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int make_room(std::string& content, std::size_t size) {
  try {
    content.resize(size);
    return 0;
  } catch (const std::exception&) {  // bad_alloc, or length_error if the file claims more bytes than memory can hold
    return ENOMEM;
  }
}

/// Returns 0 if the open file is the one that `path` names, ENOENT if `path` names another file or none, and else why
/// that cannot be known.
int name_error(const File& file, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  if (::fstat(file.descriptor(), &opened) != 0 || ::lstat(path.c_str(), &named) != 0) return errno;
  // A client of a network file system may still report the deleted file under the name.
  if (opened.st_nlink == 0) return ENOENT;
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino ? 0 : ENOENT;
}

/// Opens an existing lock file. A network file system wants a file that is open for writing, and flock on other file
/// systems needs no permission to write. A link, or a file with a second name, could be anybody's file.
int open_existing_lock(const std::filesystem::path& path, File& file) {
  constexpr int kFlags = O_NONBLOCK | O_NOFOLLOW;
  int error = open_file(path, O_RDWR | kFlags, file);
  if (error == EACCES) error = open_file(path, O_RDONLY | kFlags, file);
  if (error != 0) return error == ELOOP ? EACCES : error;
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) return errno;
  return S_ISREG(status.st_mode) && status.st_nlink <= 1 ? 0 : EACCES;
}

/// Appends the machine's number, the process id, a counter of the process's calls and the time. Two machines with the
/// same number may still pick the same name; O_EXCL turns that into an error of one store.
std::filesystem::path staging_path(const std::filesystem::path& path) {
  static std::atomic<unsigned> count{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return fmt::format("{}.{}.{}.{}.{}{}", path.string(), this_machine(), ::getpid(), count.fetch_add(1), now,
                     kStagingSuffix);
}

/// Cuts ".<number>" off the end of `name`. Returns false if the name does not end so.
bool cut_number(std::string_view& name, std::string_view& number) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return false;
  if (name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos) return false;
  number = name.substr(dot + 1);
  name = name.substr(0, dot);
  return true;
}

/// The parts of the name of a temporary file. Earlier versions of cubit did not name the machine.
struct StagingName {
  std::string_view target;
  std::string_view machine;
};

StagingName parse_staging_name(std::string_view name) {
  constexpr int kNumbers = 3;  // process id, counter and time
  if (!is_staging_name(name)) return {};
  name.remove_suffix(kStagingSuffix.size());
  std::string_view number;
  for (int at = 0; at < kNumbers; ++at) {
    if (!cut_number(name, number)) return {};
  }
  StagingName parsed;
  cut_number(name, parsed.machine);
  parsed.target = name;
  return parsed;
}

/// Makes a client of a network file system ask the server again which names the folder has. A client may remember for
/// seconds that a name does not exist.
void refresh_names(const std::filesystem::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), &::closedir);
}

/// Renames `from` unless something has the name `to`. Returns EINVAL or ENOSYS on file systems without such a call.
int rename_to_free_name(const std::filesystem::path& from, const std::filesystem::path& to) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
}

bool lacks_free_names(int error) { return error == EINVAL || error == ENOSYS; }

int make_lock_as(const std::filesystem::path& path, File& file) {
  constexpr mode_t kMode = 0666;
  const int error = open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, file, kMode);
  if (error == 0) static_cast<void>(::fchmod(file.descriptor(), kMode));
  return error;
}

/// Makes a lock file, or returns EEXIST. The file gets its name last. Otherwise another user could find the file before
/// fchmod gives back the bits that the umask has taken away.
int make_lock(const std::filesystem::path& path, File& file) {
  const auto staged = staging_path(path);
  if (const int error = make_lock_as(staged, file)) return error;
  static_cast<void>(::flock(file.descriptor(), LOCK_EX | LOCK_NB));  // for is_abandoned
  const int error = rename_to_free_name(staged, path);
  if (error == 0) return 0;
  static_cast<void>(::unlink(staged.c_str()));
  if (lacks_free_names(error)) return make_lock_as(path, file);
  return error == ENOENT ? EEXIST : error;  // somebody has cleaned up the unlocked file: the caller tries again
}

/// Opens a lock file or makes one. Returns EWOULDBLOCK if other processes make and delete the file all the time. Linux
/// refuses O_CREAT for another user's file in a sticky folder, even if everybody
/// may write the file (sysctl fs.protected_regular), so an existing file is opened without that flag.
int open_lock(const std::filesystem::path& path, File& file, bool& is_created) {
  constexpr int kAttempts = 10;
  int error = ENOENT;
  is_created = false;
  for (int attempt = 0; attempt < kAttempts && (error == ENOENT || error == EEXIST); ++attempt) {
    error = open_existing_lock(path, file);
    if (error != ENOENT) continue;
    error = make_lock(path, file);
    if (error == ENOENT) return error;  // there is no folder
    if (error == EEXIST) refresh_names(path.parent_path());
    is_created = error == 0;
  }
  return error == ENOENT || error == EEXIST ? EWOULDBLOCK : error;
}

/// Locks the open file if it is free. Returns ENOENT if its owner has deleted it, because another process may have made
/// and locked a new one.
int try_lock(const std::filesystem::path& path, const File& file, bool is_created) {
  if (retried([&] { return ::flock(file.descriptor(), LOCK_EX | LOCK_NB); }) == 0) return name_error(file, path);
  const int error = errno;
  if (is_created && lacks_locks(error)) static_cast<void>(::unlink(path.c_str()));
  if (error == ESTALE) return ENOENT;      // a network file system, and another machine has deleted the file
  return error == EBADF ? EACCES : error;  // a network file system, and the file is open only for reading
}

bool is_folder(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

PublishError stage(const std::filesystem::path& staged, std::string_view content, File& file) {
  if (const int error = open_file(staged, O_WRONLY | O_CREAT | O_EXCL, file, 0644)) return {error, "create"};
  // The umask may have taken bits away. A file system without modes refuses the call, and has nothing to set.
  static_cast<void>(::fchmod(file.descriptor(), 0644));
  // The lock only tells is_abandoned that the file is in use. Publishing works without the lock.
  static_cast<void>(::flock(file.descriptor(), LOCK_EX | LOCK_NB));
  if (const int error = write_all(file.descriptor(), content)) return {error, "write"};
  if (retried([&] { return ::fsync(file.descriptor()); }) != 0) return {errno, "fsync"};
  return {};
}

}  // namespace

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    static_cast<void>(close());
    descriptor_ = other.release();
  }
  return *this;
}

File::~File() { static_cast<void>(close()); }

int File::release() { return std::exchange(descriptor_, -1); }

int File::close() {
  // Linux frees the descriptor even if close is interrupted, so there is no retry.
  return open() && ::close(release()) != 0 ? errno : 0;
}

int create_folders(const std::filesystem::path& path) {
  if (is_folder(path)) return 0;
  const auto parent = path.parent_path();
  if (!parent.empty() && parent != path) {
    if (const int error = create_folders(parent)) return error;
  }
  if (::mkdir(path.c_str(), 0700) == 0) return 0;
  const int error = errno;
  // Another process may have created the folder meanwhile. A file of the same name is an error.
  if (error == EEXIST) return is_folder(path) ? 0 : ENOTDIR;
  return error;
}

int create_folder_like_parent(const std::filesystem::path& path) {
  struct stat parent {};
  if (is_folder(path)) return 0;
  if (::stat(path.parent_path().c_str(), &parent) != 0) return errno;
  const mode_t mode = parent.st_mode & 07777;
  // The folder gets its name last. Otherwise another user could find the folder before fchmod gives back the bits that
  // the umask has taken away.
  const auto staged = staging_path(path);
  if (::mkdir(staged.c_str(), mode) != 0) return errno;
  // Where others can rename folders, the name may already stand for another one.
  File folder;
  struct stat made {};
  if (open_file(staged, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, folder) == 0 && ::fstat(folder.descriptor(), &made) == 0 &&
      made.st_uid == ::geteuid()) {
    static_cast<void>(::fchmod(folder.descriptor(), mode));
  }
  int error = rename_to_free_name(staged, path);
  if (lacks_free_names(error) && !is_folder(path)) error = ::rename(staged.c_str(), path.c_str()) == 0 ? 0 : errno;
  if (error == 0) return 0;
  static_cast<void>(::rmdir(staged.c_str()));
  return is_folder(path) ? 0 : error;
}

static Ownership ownership_of(const struct stat& status) {
  return {status.st_uid, status.st_gid, static_cast<std::uint32_t>(status.st_mode & 07777),
          static_cast<std::uint64_t>(S_ISDIR(status.st_mode) ? 1 : status.st_nlink)};
}

int read_ownership(const std::filesystem::path& path, Ownership& ownership) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno;
  ownership = ownership_of(status);
  return 0;
}

static std::int64_t nanoseconds_of(const timespec& time) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return time.tv_sec * kNanoseconds + time.tv_nsec;
}

static FileIdentity identity_of(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          nanoseconds_of(status.st_ctim)};
}

static FileFacts facts_of(const struct stat& status) {
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .identity = identity_of(status),
          .ownership = ownership_of(status),
          .modified = nanoseconds_of(status.st_mtim),
          .is_folder = S_ISDIR(status.st_mode)};
}

std::int64_t file_clock_now() {
  timespec now{};
  static_cast<void>(::clock_gettime(CLOCK_REALTIME, &now));
  return nanoseconds_of(now);
}

int read_facts(const std::filesystem::path& path, FileFacts& facts) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno;
  facts = facts_of(status);
  return 0;
}

bool remove_name(const std::filesystem::path& path) { return std::remove(path.c_str()) == 0; }

void touch(const std::filesystem::path& path) {
  static_cast<void>(::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW));
}

std::uint64_t free_bytes(const std::filesystem::path& path) {
  struct statvfs status {};
  return ::statvfs(path.c_str(), &status) == 0 ? std::uint64_t{status.f_bavail} * status.f_frsize : 0;
}

int lock_error(const std::filesystem::path& path) {
  const auto probe = staging_path(path);
  File file;
  if (const int error = open_file(probe, O_RDWR | O_CREAT | O_EXCL, file)) return error;
  const int error = retried([&] { return ::flock(file.descriptor(), LOCK_EX | LOCK_NB); }) == 0 ? 0 : errno;
  static_cast<void>(::unlink(probe.c_str()));
  return error == EWOULDBLOCK ? 0 : error;  // a process that cleans the folder up holds the lock
}

bool lacks_locks(int error) { return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK; }

int open_regular(const std::filesystem::path& path, File& file, FileFacts& facts) {
  if (const int error = open_file(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, file)) {
    if (error != ELOOP) return error;
    const int facts_error = read_facts(path, facts);
    return facts_error == 0 ? kNoRegularFile : facts_error;
  }
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) return errno;
  facts = facts_of(status);
  return S_ISREG(status.st_mode) ? 0 : kNoRegularFile;
}

bool is_still(const std::filesystem::path& path, const FileIdentity& identity) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && identity_of(status) == identity;
}

int read_some(const File& file, std::size_t most, std::string& content) {
  std::size_t done = content.size();
  const std::size_t end = done + most;
  if (const int error = make_room(content, end)) return error;
  while (done < end) {
    const ssize_t count = retried([&] { return ::read(file.descriptor(), content.data() + done, end - done); });
    if (count < 0) return errno;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  content.resize(done);
  return 0;
}

PublishError publish_file(const std::filesystem::path& path, std::string_view content) {
  const auto staged = staging_path(path);
  File file;
  PublishError failure = stage(staged, content, file);
  if (failure.error == 0 && ::rename(staged.c_str(), path.c_str()) != 0) failure = {errno, "rename"};
  if (const int error = file.close(); error != 0 && failure.error == 0) failure = {error, "close"};
  if (failure.error != 0) {
    static_cast<void>(::unlink(staged.c_str()));
    return failure;
  }
  return {};
}

bool is_staging_name(std::string_view name) { return name.ends_with(kStagingSuffix); }

std::string_view staged_name(std::string_view name) { return parse_staging_name(name).target; }

std::uint32_t this_machine() {
  constexpr std::size_t kDigits = 8;
  constexpr int kHexadecimal = 16;
  File file;
  std::string boot;
  if (open_file("/proc/sys/kernel/random/boot_id", O_RDONLY, file) != 0 || read_some(file, kDigits, boot) != 0)
    return 0;
  std::uint32_t number = 0;
  std::from_chars(boot.data(), boot.data() + boot.size(), number, kHexadecimal);
  return number;
}

bool is_this_machine(std::string_view number) { return number == fmt::format("{}", this_machine()); }

bool is_older_than(const std::filesystem::path& path, std::chrono::nanoseconds age) {
  FileFacts facts;
  return read_facts(path, facts) == 0 && std::chrono::nanoseconds(file_clock_now() - facts.modified) > age;
}

bool is_abandoned_by_age(const std::filesystem::path& path) { return is_older_than(path, kAbandonedAfter); }

bool is_abandoned(const std::filesystem::path& staged) {
  const std::string name = staged.filename().native();
  if (!is_folder(staged) && is_this_machine(parse_staging_name(name).machine)) {
    File file;
    if (open_existing_lock(staged, file) != 0) return false;
    if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) return true;
    if (!lacks_locks(errno)) return false;
  }
  return is_abandoned_by_age(staged);
}

int lock_file(const std::filesystem::path& path, File& file, const LockWait& wait) {
  // Polls instead of blocking in flock: a blocking wait would never end if the lock's owner is stopped.
  const auto start = std::chrono::steady_clock::now();
  bool is_patient = wait.impatient != nullptr;
  bool is_created = false;
  for (std::chrono::milliseconds pause(1);; pause = std::min(2 * pause, kLongestPause)) {
    int error = file.open() ? 0 : open_lock(path, file, is_created);
    if (error != 0 && error != EWOULDBLOCK) return error;
    if (error == 0) error = try_lock(path, file, is_created);
    if (error == 0) return 0;
    if (error != EWOULDBLOCK) file = File();
    if (error != EWOULDBLOCK && error != ENOENT) return error;
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited >= wait.most) return EWOULDBLOCK;
    if (is_patient && waited >= wait.patience) {
      is_patient = false;
      wait.impatient();
    }
    std::this_thread::sleep_for(pause);
  }
}

void unlock_and_remove(const std::filesystem::path& path, const File& file) {
  if (!file.open()) return;
  if (name_error(file, path) == 0) static_cast<void>(::unlink(path.c_str()));
  static_cast<void>(retried([&] { return ::flock(file.descriptor(), LOCK_UN); }));
}

bool remove_free_lock(const std::filesystem::path& path) {
  File file;
  if (open_existing_lock(path, file) != 0) return false;
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0 || name_error(file, path) != 0) return false;
  const bool removed = ::unlink(path.c_str()) == 0;
  static_cast<void>(retried([&] { return ::flock(file.descriptor(), LOCK_UN); }));
  return removed;
}

}  // namespace cubit::runtime
