// Temporary folders and hand-made safetensors files for the tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::tools::test {

/// A folder that the destructor removes with its content.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  /// Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view content) const;
  /// The sorted names of the files in the folder.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path folder_;
};

std::string read_file(const std::string& path);

/// A file of the 8-byte length, `header`, then `data`.
std::string safetensors_bytes(std::string_view header, std::string_view data);

std::span<const std::byte> as_bytes(std::string_view text);

}  // namespace cubit::tools::test
