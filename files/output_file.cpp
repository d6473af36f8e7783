#include "files/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "files/text/error.hpp"

namespace cubit::tools {
namespace {

namespace fs = std::filesystem;

/// The text of errno. strerror is not thread-safe on every system, but only one thread opens files here.
std::string system_error() { return std::strerror(errno); }

/// The end of a chain of symbolic links, whether the end exists or not.
std::string follow_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // the limit of Linux
  std::error_code error;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    if (links == kMostLinks) throw BadInput(path, "leads through too many symbolic links", kWritableWanted);
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return target.string();
}

/// The file to write: the target of a symbolic link, but never a device or a folder.
std::string destination(const std::string& path) {
  if (path.empty()) throw BadInput("the name of an output", "is empty", "give the name of a file to write");
  // The system ends a name at its first NUL, so the file would have another name than the caller asked for.
  if (path.find('\0') != std::string::npos) throw BadInput(path, "contains a NUL", "give the name of a file to write");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw BadInput(path, "exists and is not a regular file", "give the name of a file to write");
  }
  return follow_links(path);
}

/// A different name at each call. The time makes the name unique after a restart, when a process number may come again.
std::string temporary_name(const std::string& path) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}.{}.{:x}.tmp", path, ::getpid(), now);
}

constexpr std::string_view kTemporaryEnd = ".tmp";

/// Whether `name` is a temporary_name() of the output `output`: OUTPUT.PROCESS.TIME.tmp.
bool is_temporary_of(std::string_view name, std::string_view output) {
  if (!name.starts_with(output) || !name.ends_with(kTemporaryEnd)) return false;
  name.remove_prefix(output.size());
  if (name.size() <= kTemporaryEnd.size()) return false;
  name.remove_suffix(kTemporaryEnd.size());
  const std::size_t time = name.rfind('.');
  if (name.front() != '.' || time == 0) return false;
  return name.substr(1, time - 1).find_first_not_of("0123456789") == std::string_view::npos &&
         name.substr(time + 1).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Deletes the temporary files of the same output whose processes were killed: nobody holds their locks.
void remove_abandoned(const fs::path& output) {
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    if (!is_temporary_of(file->path().filename().string(), output.filename().string())) continue;
    const int descriptor = ::open(file->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(file->path().c_str());
    ::close(descriptor);
  }
}

/// Locks a new temporary file, so that other processes leave it alone. False if another process, which looked for
/// abandoned files, was faster. A file system without locks keeps abandoned files.
bool lock_temporary(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

/// The text of errno. A name may be short enough by itself, but too long with the `longer` bytes of its temporary name.
std::string why_not_made(std::size_t longer) {
  const bool is_long = errno == ENAMETOOLONG;
  return system_error() +
         (is_long ? fmt::format(" with the {} bytes that the name of the temporary file adds", longer) : "");
}

}  // namespace

void require_another_file(const std::string& option, const std::string& output, const std::string& input) {
  std::error_code error;  // set if a file does not exist yet
  if (!fs::equivalent(output, input, error)) return;
  throw BadInput(fmt::format("{} {}", option, output),
                 output == input ? "is the input, which the output would replace"
                                 : fmt::format("is the input {}, which the output would replace", printable(input)),
                 "give the name of another file");
}

void require_another_file(const std::string& option, const std::string& output, std::span<const std::string> inputs) {
  for (const std::string& input : inputs) require_another_file(option, output, input);
}

OutputFile::OutputFile(const std::string& path) : path_(destination(path)) {
  remove_abandoned(path_);
  constexpr int kMostNames = 100;  // each attempt has a new name, so more would not help
  for (int names = 0; names < kMostNames; ++names) {
    temporary_ = temporary_name(path_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
    if (descriptor_ < 0) continue;
    if (lock_temporary(descriptor_)) break;
    ::close(descriptor_);
    descriptor_ = -1;
    errno = EEXIST;
  }
  if (descriptor_ >= 0) return;
  const std::string cause = why_not_made(temporary_.size() - path_.size());
  const std::string way = path_ == path ? "" : fmt::format("leads to {}, which ", printable(path_));
  throw BadInput(path, way + "cannot be written: " + cause, kWritableWanted);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw WorkFailed(path_, "cannot be written: " + system_error(), kWritableWanted);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::set_mode(unsigned mode) {
  if (::fchmod(descriptor_, mode) != 0)
    throw WorkFailed(path_, "cannot be written: " + system_error(), kWritableWanted);
}

void OutputFile::write(std::span<const TensorView> tensors, const Metadata& metadata) {
  const std::string header = safetensors_header(tensors, metadata);
  write(header.data(), header.size());
  for (const TensorView& tensor : tensors) write(tensor.data.data(), tensor.data.size());
}

void OutputFile::commit(std::span<const TensorView> tensors, const Metadata& metadata) {
  write(tensors, metadata);
  publish();
}

bool OutputFile::commit_new(std::span<const TensorView> tensors, const Metadata& metadata) {
  write(tensors, metadata);
  sync();
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) {
    ::close(descriptor_);
    descriptor_ = -1;
    return true;
  }
  // Some file systems, such as NFS, know no RENAME_NOREPLACE. The destructor then removes the first of two links.
  const bool is_linked = errno == EINVAL && ::link(temporary_.c_str(), path_.c_str()) == 0;
  if (!is_linked && errno != EEXIST) throw WorkFailed(path_, "cannot be made: " + system_error(), kWritableWanted);
  return is_linked;
}

void OutputFile::commit_text(std::string_view content) {
  write(content.data(), content.size());
  publish();
}

void OutputFile::append(std::span<const std::byte> bytes) { write(bytes.data(), bytes.size()); }

void OutputFile::finish() { publish(); }

void OutputFile::sync() {
  if (::fsync(descriptor_) != 0) throw WorkFailed(path_, "cannot be written: " + system_error(), kWritableWanted);
}

void OutputFile::publish() {
  sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw WorkFailed(path_, "cannot be replaced: " + system_error(), kWritableWanted);
  }
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace cubit::tools
