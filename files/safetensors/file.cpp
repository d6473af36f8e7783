// Reads safetensors files from disk into memory.
#include "files/input_file.hpp"
#include "files/safetensors/reader.hpp"
#include "files/safetensors/safetensors.hpp"

namespace cubit::tools {
SafetensorsFile::SafetensorsFile(const std::string& path)
    : SafetensorsFile(SafetensorsReader(path), [](const std::string&) { return true; }) {}

SafetensorsFile::SafetensorsFile(const SafetensorsReader& file, const std::function<bool(const std::string&)>& wanted) {
  std::vector<HeaderEntry> taken;
  std::uint64_t bytes = 0;
  for (const HeaderEntry& entry : file.tensors()) {
    if (!wanted(entry.name)) continue;
    require_usable(entry, file.path());
    taken.push_back(entry);
    bytes += bytes_of(entry);
  }
  require_memory(bytes, file.path());
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
