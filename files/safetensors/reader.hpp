// Reads a safetensors file that may be larger than memory: the header is kept in memory, the tensors' bytes stay on
// disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/input_file.hpp"
#include "files/safetensors/header.hpp"

namespace cubit::tools {

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);  ///< throws BadInput

  const std::vector<HeaderEntry>& tensors() const { return tensors_; }  ///< in the order of their bytes
  const Metadata& metadata() const { return metadata_; }
  const std::string& path() const { return file_.path(); }
  /// Reads a part of a tensor, from its byte `begin` on. Throws BadInput.
  void read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const;

 private:
  InputFile file_;
  std::uint64_t data_ = 0;  ///< offset of the tensors' bytes in the file
  std::vector<HeaderEntry> tensors_;
  Metadata metadata_;
};

}  // namespace cubit::tools
