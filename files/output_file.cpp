#include "files/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
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

OutputFile::OutputFile(const std::string& path) : path_(destination(path)) {
  constexpr int kMostNames = 100;  // each attempt has a new name, so more would not help
  for (int names = 0; names < kMostNames; ++names) {
    temporary_ = temporary_name(path_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0 || errno != EEXIST) break;
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

void OutputFile::commit(std::span<const TensorView> tensors) {
  const std::string header = safetensors_header(tensors);
  write(header.data(), header.size());
  for (const TensorView& tensor : tensors) write(tensor.data.data(), tensor.data.size());
  publish();
}

void OutputFile::commit_text(std::string_view content) {
  write(content.data(), content.size());
  publish();
}

void OutputFile::append(std::span<const std::byte> bytes) { write(bytes.data(), bytes.size()); }

void OutputFile::finish() { publish(); }

void OutputFile::publish() {
  if (::fsync(descriptor_) != 0) throw WorkFailed(path_, "cannot be written: " + system_error(), kWritableWanted);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw WorkFailed(path_, "cannot be replaced: " + system_error(), kWritableWanted);
  }
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace cubit::tools
