#include "tools/safetensors_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tools/error.hpp"

namespace cubit::tools {
namespace {

constexpr std::size_t kLengthBytes = 8;

std::size_t regular_file_bytes(int descriptor, const std::string& path) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0)
    throw BadInput(path, std::string("cannot be read: ") + std::strerror(errno), kReadableWanted);
  if (!S_ISREG(facts.st_mode)) throw BadInput(path, "is not a regular file", "give a safetensors file");
  if (facts.st_size == 0) throw BadInput(path, "is empty", "give a safetensors file");
  return static_cast<std::size_t>(facts.st_size);
}

/// Closes what a constructor has opened, unless it comes to its end.
struct Closing {
  int descriptor;
  ~Closing() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path)
    // Not blocking, so that a pipe of that name does not hang the program before it is refused.
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) throw BadInput(path, std::string("cannot be read: ") + std::strerror(errno), kReadableWanted);
  Closing closing{descriptor_};
  const std::size_t bytes = regular_file_bytes(descriptor_, path);
  std::array<std::byte, kLengthBytes> start{};
  const std::span read_start = std::span(start).first(std::min(bytes, kLengthBytes));
  read_at(0, read_start);
  std::string header(header_length(read_start, bytes, path), '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(header)));
  data_ = kLengthBytes + header.size();
  tensors_ = parse_entries(header, bytes - data_, path, &metadata_);
  closing.descriptor = -1;
}

SafetensorsReader::~SafetensorsReader() { ::close(descriptor_); }

std::vector<std::byte> SafetensorsReader::read(const HeaderEntry& tensor) const {
  std::vector<std::byte> bytes(tensor.offsets[1] - tensor.offsets[0]);
  read(tensor, 0, bytes);
  return bytes;
}

void SafetensorsReader::read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const {
  read_at(data_ + tensor.offsets[0] + begin, dst);
}

void SafetensorsReader::read_at(std::uint64_t position, std::span<std::byte> dst) const {
  while (!dst.empty()) {
    const ssize_t got = ::pread(descriptor_, dst.data(), dst.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw BadInput(path_, std::string("cannot be read: ") + std::strerror(errno), kReadableWanted);
    if (got == 0) throw BadInput(path_, fmt::format("was cut to {} bytes while it was read", position), kWholeWanted);
    position += static_cast<std::uint64_t>(got);
    dst = dst.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace cubit::tools
