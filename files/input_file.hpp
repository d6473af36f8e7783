// A regular file that a command reads. The file may be larger than memory and may change while it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cubit::tools {

class InputFile {
 public:
  /// Throws BadInput if the file does not exist, cannot be read or is not a regular file (a pipe, for example).
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }  ///< size of the file when it was opened
  /// Reads from byte `begin` on. Throws BadInput, also if the file has become too short.
  void read(std::uint64_t begin, std::span<std::byte> dst) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// A text that another file, or the same file after a change, does not have: path, size and time of the last change.
std::string identity_of(const std::string& path);

/// Throws BadInput if the file is a git-LFS pointer: a clone without git-LFS has a short text in the place of each
/// large file.
void refuse_lfs_pointer(const InputFile& file);

/// Throws BadInput if `bytes`, the memory that reading `path` takes, exceed the machine's memory. The system
/// overcommits memory and kills a process that uses too much, so the check comes first.
void require_memory(std::uint64_t bytes, const std::string& path);

}  // namespace cubit::tools
