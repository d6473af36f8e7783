#include "files/safetensors/reader.hpp"

#include <algorithm>
#include <array>

#include "files/text/error.hpp"

namespace cubit::tools {

SafetensorsReader::SafetensorsReader(const std::string& path) : file_(path) {
  if (file_.bytes() == 0) throw BadInput(path, "is empty", "give a safetensors file");
  refuse_lfs_pointer(file_);
  std::array<std::byte, kLengthBytes> start{};
  const std::span read_start = std::span(start).first(std::min<std::size_t>(file_.bytes(), kLengthBytes));
  file_.read(0, read_start);
  std::string header(header_length(read_start, file_.bytes(), path), '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  data_ = kLengthBytes + header.size();
  tensors_ = parse_entries(header, file_.bytes() - data_, path, &metadata_);
}

void SafetensorsReader::read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const {
  file_.read(data_ + tensor.offsets[0] + begin, dst);
}

}  // namespace cubit::tools
