#include "files/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

/// By errno, whose text strerror makes; that is not thread-safe everywhere, but only one thread opens files here.
[[noreturn]] void fail_to_read(const std::string& path) {
  throw BadInput(path.empty() ? quote(path) : path, std::string("cannot be read: ") + std::strerror(errno),
                 kReadableWanted);
}

std::uint64_t regular_file_bytes(int descriptor, const std::string& path) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) fail_to_read(path);
  if (!S_ISREG(facts.st_mode)) throw BadInput(path, "is not a regular file", "give a file");
  return static_cast<std::uint64_t>(facts.st_size);
}

}  // namespace

InputFile::InputFile(const std::string& path)
    // Not blocking, so that a pipe of that name does not hang the program before it is refused.
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail_to_read(path);
  try {
    bytes_ = regular_file_bytes(descriptor_, path);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t begin, std::span<std::byte> dst) const {
  while (!dst.empty()) {
    const ssize_t got = ::pread(descriptor_, dst.data(), dst.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_read(path_);
    if (got == 0) throw BadInput(path_, fmt::format("was cut to {} bytes while it was read", begin), kWholeWanted);
    begin += static_cast<std::uint64_t>(got);
    dst = dst.subspan(static_cast<std::size_t>(got));
  }
}

std::string identity_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  return fmt::format("{} {} {}", fs::weakly_canonical(path, error).string(), fs::file_size(path, error), time);
}

void refuse_lfs_pointer(const InputFile& file) {
  constexpr std::string_view kStart = "version https://git-lfs.github.com/spec/";
  std::array<char, kStart.size()> start{};
  if (file.bytes() < start.size()) return;
  file.read(0, std::as_writable_bytes(std::span(start)));
  if (std::string_view(start.data(), start.size()) != kStart) return;
  throw BadInput(file.path(), "is a git-LFS pointer, a short text in the place of the file itself",
                 "download the file: git lfs pull");
}

void require_memory(std::uint64_t bytes, const std::string& path) {
  const auto memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (static_cast<double>(bytes) < memory) return;
  throw BadInput(path, fmt::format("has tensors that take {} bytes, which is more than this machine's memory", bytes),
                 "give smaller tensors");
}

}  // namespace cubit::tools
