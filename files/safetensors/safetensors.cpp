#include "files/safetensors/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "files/safetensors/header.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

std::uint64_t read_length(std::span<const std::byte> file) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  return length;
}

/// Checks what the format demands: tensors follow each other without holes or overlaps and end with the file.
void check_coverage(const std::vector<HeaderEntry>& entries, std::size_t data_bytes, const std::string& label) {
  std::uint64_t expected = 0;
  for (const HeaderEntry& entry : entries) {
    const auto [begin, end] = entry.offsets;
    if (end > data_bytes) {
      throw BadInput(label,
                     fmt::format("tensor {} ends at byte {} of the data, which has only {}; the file is "
                                 "truncated or damaged",
                                 quote(entry.name), end, data_bytes),
                     kWholeWanted);
    }
    if (begin != expected) {
      throw BadInput(label,
                     fmt::format("tensor {} begins at byte {} instead of {}; tensors may neither overlap "
                                 "nor leave holes",
                                 quote(entry.name), begin, expected),
                     kWholeWanted);
    }
    expected = end;
  }
  if (expected != data_bytes) {
    throw BadInput(label, fmt::format("{} bytes follow the last tensor", data_bytes - expected), kWholeWanted);
  }
}

}  // namespace

std::size_t header_length(std::span<const std::byte> file_start, std::size_t file_bytes, const std::string& label) {
  if (file_start.size() < kLengthBytes) {
    throw BadInput(label, fmt::format("{} bytes are too few for a safetensors file", file_bytes),
                   "a safetensors file starts with the 8-byte length of its header");
  }
  const std::uint64_t length = read_length(file_start);
  if (length > kLargestHeader) {
    throw BadInput(label, fmt::format("the header claims {} bytes, over the limit of {}", length, kLargestHeader),
                   "is this a safetensors file?");
  }
  if (length > file_bytes - kLengthBytes) {
    throw BadInput(label,
                   fmt::format("the header claims {} bytes, but only {} follow; the file is truncated", length,
                               file_bytes - kLengthBytes),
                   kWholeWanted);
  }
  return length;
}

std::vector<HeaderEntry> parse_entries(std::string_view text, std::size_t data_bytes, const std::string& label,
                                       Metadata* metadata) {
  std::vector<HeaderEntry> entries = parse_header(text, label, metadata);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const HeaderEntry& a, const HeaderEntry& b) { return a.offsets < b.offsets; });
  check_coverage(entries, data_bytes, label);
  return entries;
}

std::string safetensors_header(std::span<const TensorView> tensors, const Metadata& metadata) {
  std::vector<HeaderEntry> entries;
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const std::uint64_t end = offset + tensor.data.size();
    entries.push_back({tensor.name, tensor.type, tensor.shape, {offset, end}});
    offset = end;
  }
  return format_header(entries, metadata);
}

std::string format_header(std::span<const HeaderEntry> entries, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const HeaderEntry& entry : entries)
    header[entry.name] = {{"dtype", entry.type}, {"shape", entry.shape}, {"data_offsets", entry.offsets}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prefix + text;
}

}  // namespace cubit::tools
