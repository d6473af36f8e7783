// Reads and writes recordings.
#include "tests/conformance/recording.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace cubit::conformance {
namespace {

constexpr std::size_t kKeptBytes = 512;  ///< exact results up to this size are kept as bits
constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(const std::vector<std::byte>& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (i + k < bytes.size() ? static_cast<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text += k <= bytes.size() - i ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::vector<std::byte> from_base64(const std::string& text) {
  std::vector<std::byte> bytes;
  std::uint32_t word = 0;
  int count = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    const char* const place = std::strchr(kDigits, digit);
    if (place == nullptr) throw std::runtime_error("recording: bits that are not base64");
    word = word << 6 | static_cast<std::uint32_t>(place - kDigits);
    if (++count % 4 != 1) bytes.push_back(static_cast<std::byte>(word >> (6 - 2 * ((count - 1) % 4))));
  }
  return bytes;
}

std::string hex(std::uint64_t value, int digits) {
  char text[17];
  std::snprintf(text, sizeof text, "%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}

struct FloatLayout {
  std::size_t bytes;
  std::uint64_t infinity;
  std::uint64_t sign;
};

FloatLayout layout_of(std::string_view format) {
  if (format == "f16") return {2, 0x7c00, 0x8000};
  if (format == "bf16") return {2, 0x7f80, 0x8000};
  if (format == "f32") return {4, 0x7f800000, 0x80000000};
  return {8, 0x7ff0000000000000, 0x8000000000000000};
}

nlohmann::json json_of(const Recorded& entry) {
  nlohmann::json row = {{"id", hex(entry.identity, 16)}};
  if (!entry.refused.empty()) row["refused"] = entry.refused;
  if (!entry.bits.empty()) row["bits"] = base64(entry.bits);
  std::string parts;
  for (const std::uint32_t part : entry.parts) parts += hex(part, 8);
  if (!parts.empty()) row["parts"] = parts;
  return row;
}

Recorded entry_of(const nlohmann::json& row) {
  Recorded entry;
  entry.identity = std::stoull(row.at("id").get<std::string>(), nullptr, 16);
  entry.refused = row.value("refused", "");
  entry.bits = from_base64(row.value("bits", ""));
  const std::string parts = row.value("parts", "");
  for (std::size_t i = 0; i + 8 <= parts.size(); i += 8)
    entry.parts.push_back(static_cast<std::uint32_t>(std::stoul(parts.substr(i, 8), nullptr, 16)));
  return entry;
}

}  // namespace

std::vector<std::byte> comparable(const Case& given, std::vector<std::byte> output) {
  if (given.rule.kind == Rule::Kind::exact || given.rule.kind == Rule::Kind::matrix) return output;
  const FloatLayout layout = layout_of(given.rule.format);
  for (std::size_t at = 0; at + layout.bytes <= output.size(); at += layout.bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, output.data() + at, layout.bytes);
    if ((value & ~layout.sign) <= layout.infinity) continue;
    value = layout.sign - 1;
    std::memcpy(output.data() + at, &value, layout.bytes);
  }
  return output;
}

std::string difference_from_model(const Case& given, const std::vector<std::byte>& output) {
  const std::vector<std::byte> expected = comparable(given, given.model());
  const std::vector<std::byte> bytes = comparable(given, output);
  if (expected.size() != bytes.size())
    return std::to_string(bytes.size()) + " bytes of " + std::to_string(expected.size());
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = bytes.size() / 4; i-- > 0;) {
    if (std::memcmp(bytes.data() + 4 * i, expected.data() + 4 * i, 4) == 0) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return "";
  std::uint32_t words[2];
  std::memcpy(&words[0], bytes.data() + 4 * first, 4);
  std::memcpy(&words[1], expected.data() + 4 * first, 4);
  return std::to_string(wrong) + " words differ from the model, the first is " + std::to_string(first) + ": " +
         hex(words[0], 8) + " and not " + hex(words[1], 8);
}

std::vector<std::uint32_t> hashes_of_parts(const std::vector<std::byte>& bytes) {
  std::vector<std::uint32_t> parts;
  for (std::size_t i = 0; i < kParts; ++i) {
    const std::size_t first = bytes.size() * i / kParts;
    const std::size_t last = bytes.size() * (i + 1) / kParts;
    const std::uint64_t value = hash(bytes.data() + first, last - first);
    parts.push_back(static_cast<std::uint32_t>(value ^ value >> 32));
  }
  return parts;
}

Recorded recorded(const Case& given, std::vector<std::byte> output, bool all) {
  Recorded entry;
  entry.identity = given.identity();
  std::vector<std::byte> bytes = comparable(given, std::move(output));
  if (all || given.rule.kind == Rule::Kind::near || bytes.size() <= kKeptBytes) {
    entry.bits = std::move(bytes);
  } else {
    entry.parts = hashes_of_parts(bytes);
  }
  return entry;
}

/// Writes one line per case, so that differences of two recordings are readable.
void write_recording(const Recording& recording, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << "{\"device\": " << nlohmann::json(recording.device) << ",\n\"driver\": " << nlohmann::json(recording.driver)
       << ",\n\"cases\": {\n";
  bool first = true;
  for (const auto& [name, entry] : recording.cases) {
    file << (first ? "" : ",\n") << nlohmann::json(name) << ": " << json_of(entry).dump();
    first = false;
  }
  file << "\n}}\n";
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

Recording read_recording(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const auto json = nlohmann::json::parse(file);
  Recording recording{.device = json.at("device"), .driver = json.at("driver")};
  for (const auto& [name, row] : json.at("cases").items()) recording.cases[name] = entry_of(row);
  return recording;
}

}  // namespace cubit::conformance
