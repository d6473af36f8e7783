// A safetensors file that is too large to be read at once: its header in memory, its tensors' bytes on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/files/input_file.hpp"
#include "tools/safetensors/header.hpp"

namespace cubit::tools {

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);  ///< throws BadInput

  const std::vector<HeaderEntry>& tensors() const { return tensors_; }  ///< in the order of their bytes
  const Metadata& metadata() const { return metadata_; }
  const std::string& path() const { return file_.path(); }
  /// A piece of one of them, from its byte `begin` on. Throws BadInput.
  void read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const;

 private:
  InputFile file_;
  std::uint64_t data_ = 0;  ///< where the tensors' bytes begin
  std::vector<HeaderEntry> tensors_;
  Metadata metadata_;
};

}  // namespace cubit::tools
