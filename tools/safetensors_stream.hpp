// A safetensors file that is too large to be read at once: its header in memory, its tensors' bytes on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/safetensors_header.hpp"

namespace cubit::tools {

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);  ///< throws BadInput
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::vector<HeaderEntry>& tensors() const { return tensors_; }  ///< in the order of their bytes
  const Metadata& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }
  /// All bytes of one of them, or a piece from byte `begin` on. Throw BadInput.
  std::vector<std::byte> read(const HeaderEntry& tensor) const;
  void read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const;

 private:
  void read_at(std::uint64_t position, std::span<std::byte> dst) const;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t data_ = 0;  ///< where the tensors' bytes begin
  std::vector<HeaderEntry> tensors_;
  Metadata metadata_;
};

}  // namespace cubit::tools
