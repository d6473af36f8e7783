// A regular file that a command reads, which may be larger than memory, and may change while it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cubit::tools {

class InputFile {
 public:
  /// Throws BadInput for what is not there, cannot be read or is not a regular file: a pipe, say.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }  ///< when it was opened
  /// From byte `begin` on. Throws BadInput, also where the file has become too short.
  void read(std::uint64_t begin, std::span<std::byte> dst) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// Throws BadInput where so many bytes, which reading `path` takes, are more than the machine's memory: the system
/// hands out more than it has, and ends who uses it.
void require_memory(std::uint64_t bytes, const std::string& path);

}  // namespace cubit::tools
