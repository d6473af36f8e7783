// Temporary folders, safetensors files made by hand, and the real program run as a subprocess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::tools::test {

/// A folder of its own, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  /// Writes a file and gives its path.
  std::string write(std::string_view name, std::string_view content) const;
  /// The names in it, sorted.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path folder_;
};

std::string read_file(const std::string& path);

/// The 8-byte length, `header`, then `data`.
std::string safetensors_bytes(std::string_view header, std::string_view data);

std::span<const std::byte> as_bytes(std::string_view text);

}  // namespace cubit::tools::test
