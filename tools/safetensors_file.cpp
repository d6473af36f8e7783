// safetensors on disk, read into memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/error.hpp"
#include "tools/safetensors.hpp"

namespace cubit::tools {
namespace {

/// The text of errno; strerror is not thread-safe everywhere, but only one thread opens files here.
std::string system_error() { return std::strerror(errno); }

std::size_t regular_file_bytes(int descriptor, const std::string& path) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) throw BadInput(path, "cannot be read: " + system_error(), kReadableWanted);
  if (!S_ISREG(facts.st_mode)) throw BadInput(path, "is not a regular file", "give a safetensors file");
  return static_cast<std::size_t>(facts.st_size);
}

/// A regular file, open to be read.
struct Opened {
  int descriptor;
  std::size_t bytes;

  // Not blocking, so that a pipe of that name does not hang the program before it is refused.
  explicit Opened(const std::string& path) : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor < 0) throw BadInput(path, "cannot be read: " + system_error(), kReadableWanted);
    try {
      bytes = regular_file_bytes(descriptor, path);
    } catch (...) {
      ::close(descriptor);
      throw;
    }
  }
  ~Opened() { ::close(descriptor); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

/// The system hands out more than it has, and ends who uses it.
void require_memory(std::size_t bytes, const std::string& path) {
  const auto memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (static_cast<double>(bytes) < memory) return;
  throw BadInput(path, fmt::format("holds {} bytes, which is more than this machine's memory", bytes),
                 "give a smaller case");
}

/// Reads bytes [begin, end) to where they belong in `file`.
void read_range(int descriptor, std::span<std::byte> file, std::size_t begin, std::size_t end,
                const std::string& path) {
  while (begin < end) {
    const ssize_t got = ::pread(descriptor, file.data() + begin, end - begin, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw BadInput(path, "cannot be read: " + system_error(), kReadableWanted);
    if (got == 0) throw BadInput(path, fmt::format("was cut to {} bytes while it was read", begin), kWholeWanted);
    begin += static_cast<std::size_t>(got);
  }
}

}  // namespace

std::string read_text_file(const std::string& path) {
  const Opened file(path);
  if (file.bytes > kLargestHeader) {
    throw BadInput(path, fmt::format("holds {} bytes, over the limit of {}", file.bytes, kLargestHeader),
                   "give the index of a checkpoint");
  }
  std::string text(file.bytes, '\0');
  read_range(file.descriptor, std::as_writable_bytes(std::span(text)), 0, file.bytes, path);
  return text;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : SafetensorsFile(path, nullptr) {}

SafetensorsFile::SafetensorsFile(const std::string& path, const std::function<bool(const std::string&)>& wanted) {
  const Opened opened(path);
  const std::size_t bytes = opened.bytes;
  if (bytes == 0) throw BadInput(path, "is empty", "give a safetensors file");
  if (!wanted) require_memory(bytes, path);
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(bytes);  // what is not read takes addresses, but no memory
  const std::span file(bytes_.get(), bytes);
  // The header decides whether the rest is worth reading.
  const std::size_t length_end = std::min<std::size_t>(bytes, 8);
  read_range(opened.descriptor, file, 0, length_end, path);
  const std::size_t end = std::max(length_end, std::min(bytes, header_end(file)));
  read_range(opened.descriptor, file, length_end, end, path);
  tensors_ = parse_safetensors(file, path);
  if (wanted) std::erase_if(tensors_, [&](const TensorView& tensor) { return !wanted(tensor.name); });
  for (const TensorView& tensor : tensors_) {
    const auto begin = static_cast<std::size_t>(tensor.data.data() - file.data());
    read_range(opened.descriptor, file, begin, begin + tensor.data.size(), path);
  }
}

}  // namespace cubit::tools
