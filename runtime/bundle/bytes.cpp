// Reads the bytes of a bundle with pread, or from memory.
#include "runtime/bundle/bytes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.hpp"
#include "runtime/cache/files.hpp"

namespace cubit::runtime {
namespace {

class FileBytes final : public BundleBytes {
 public:
  FileBytes(File file, const FileFacts& facts)
      : file_(std::move(file)), size_(facts.size), ownership_(facts.ownership) {}
  std::uint64_t size() const override { return size_; }
  std::optional<Ownership> ownership() const override { return ownership_; }

  bool read(std::uint64_t offset, std::span<char> bytes) const override {
    while (!bytes.empty()) {
      const ssize_t count = ::pread(file_.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
    return true;
  }

 private:
  File file_;
  std::uint64_t size_;
  Ownership ownership_;
};

class MemoryBytes final : public BundleBytes {
 public:
  explicit MemoryBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::optional<Ownership> ownership() const override { return std::nullopt; }

  bool read(std::uint64_t offset, std::span<char> bytes) const override {
    if (offset > bytes_.size() || bytes.size() > bytes_.size() - offset) return false;
    if (!bytes.empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

std::unique_ptr<const BundleBytes> open_bundle_file(const std::filesystem::path& path) {
  File file;
  FileFacts facts;
  if (const int error = open_regular(path, file, facts); error != 0) {
    std::error_code ignored;
    const char* const kind = std::filesystem::is_symlink(path, ignored)
                                 ? "it is a symbolic link, whose target others may choose"
                                 : "it is not a regular file";
    const std::string rule =
        error == kNoRegularFile ? kind : fmt::format("it cannot be opened: {}", std::generic_category().message(error));
    throw Failure(Status::io_error, fmt::format("bundle {}", path.string()), rule, "give the path of a bundle");
  }
  return std::make_unique<FileBytes>(std::move(file), facts);
}

std::unique_ptr<const BundleBytes> bundle_memory(std::span<const std::byte> bytes) {
  return std::make_unique<MemoryBytes>(bytes);
}

}  // namespace cubit::runtime
