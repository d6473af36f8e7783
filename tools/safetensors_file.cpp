// safetensors on disk, read into memory.
#include <fmt/format.h>
#include <unistd.h>

#include "tools/error.hpp"
#include "tools/input_file.hpp"
#include "tools/safetensors.hpp"
#include "tools/safetensors_stream.hpp"

namespace cubit::tools {
namespace {

/// The system hands out more than it has, and ends who uses it.
void require_memory(std::uint64_t bytes, const std::string& path) {
  const auto memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (static_cast<double>(bytes) < memory) return;
  throw BadInput(path, fmt::format("has tensors of {} bytes, which is more than this machine's memory", bytes),
                 "give a smaller case");
}

}  // namespace

std::string read_text_file(const std::string& path) {
  const InputFile file(path);
  if (file.bytes() > kLargestHeader) {
    throw BadInput(path, fmt::format("holds {} bytes, over the limit of {}", file.bytes(), kLargestHeader),
                   "give the index of a checkpoint");
  }
  std::string text(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : SafetensorsFile(path, [](const std::string&) { return true; }) {}

SafetensorsFile::SafetensorsFile(const std::string& path, const std::function<bool(const std::string&)>& wanted) {
  const SafetensorsReader file(path);
  std::vector<HeaderEntry> taken;
  std::uint64_t bytes = 0;
  for (const HeaderEntry& entry : file.tensors()) {
    if (!wanted(entry.name)) continue;
    require_usable(entry, path);
    taken.push_back(entry);
    bytes += bytes_of(entry);
  }
  require_memory(bytes, path);
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::span<std::byte> rest(bytes_.get(), bytes);
  for (HeaderEntry& entry : taken) {
    const std::span<std::byte> data = rest.first(bytes_of(entry));
    rest = rest.subspan(data.size());
    file.read(entry, 0, data);
    tensors_.push_back({std::move(entry.name), std::move(entry.type), std::move(entry.shape), data});
  }
}

}  // namespace cubit::tools
