// Reads and writes the artifact file. A reader checks everything before it uses any value.
//
//   offset 0   8 bytes  magic "CUBITART"
//          8   u32      schema version
//         12   u32      bytes of the JSON header
//         16   u64      bytes of the cubin
//         24            JSON header, cubin, and BLAKE2b-256 of all bytes before it
#include "runtime/cache/artifact.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "runtime/little_endian.hpp"

namespace cubit::runtime {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "CUBITART";
constexpr std::size_t kPrefixBytes = kEntryPrefixBytes;
constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kMaximumHeaderBytes = std::size_t{1} << 20;
/// Far more than any kernel needs, and little enough to read into memory.
constexpr std::uint64_t kMaximumEntryBytes = std::uint64_t{256} << 20;
/// Even if every byte is escaped as six bytes, the descriptor fits the header.
constexpr std::size_t kMaximumDescriptorBytes = std::size_t{64} << 10;

[[noreturn]] void reject(const std::string& rule) { throw Failure(Status::io_error, "cache entry", rule); }

std::string_view as_text(const std::array<std::uint8_t, 32>& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

json header_of(const Artifact& artifact) {
  const ResourceReport& resources = artifact.resources;
  json header = {{"request_key", artifact.key.hex()},
                 {"compiler", {artifact.compiler.major, artifact.compiler.minor, artifact.compiler.build}},
                 {"descriptor", artifact.descriptor.substr(0, kMaximumDescriptorBytes)},
                 {"target", artifact.target},
                 {"entry_point", artifact.entry_point},
                 {"registers", resources.registers},
                 {"spill_store_bytes", resources.spill_store_bytes},
                 {"spill_load_bytes", resources.spill_load_bytes},
                 {"stack_bytes", resources.stack_bytes},
                 {"static_shared_memory", resources.static_shared_memory},
                 {"barriers", resources.barriers},
                 {"compile_milliseconds", artifact.compile_milliseconds}};
  if (artifact.code == codegen::Code::ptx) header["code"] = "ptx";
  if (!artifact.inputs.empty()) header["inputs"] = inputs_text(artifact.inputs);
  return header;
}

/// Entries of cubins have no such member.
codegen::Code code_member(const json& header) {
  const auto found = header.find("code");
  if (found == header.end()) return codegen::Code::cubin;
  if (*found != "ptx") reject("its header names a kind of code that is not known");
  return codegen::Code::ptx;
}

/// Entries of earlier versions have no such member.
std::vector<InputDigest> inputs_member(const json& header) {
  const auto found = header.find("inputs");
  if (found == header.end()) return {};
  auto inputs = found->is_string() ? parse_inputs(found->get<std::string>()) : std::nullopt;
  if (!inputs) reject("inputs in its header are not digests");
  return std::move(*inputs);
}

const json& member(const json& header, const char* name) {
  const auto found = header.find(name);
  if (found == header.end()) reject(fmt::format("its header has no {}", name));
  return *found;
}

std::string text_member(const json& header, const char* name) {
  const json& value = member(header, name);
  if (!value.is_string()) reject(fmt::format("{} in its header is not a string", name));
  return value.get<std::string>();
}

/// No number of an entry is negative.
int to_int(const json& value, const char* name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<int>::max()) {
    reject(fmt::format("{} in its header is not a number in range", name));
  }
  return value.get<int>();
}

int int_member(const json& header, const char* name) { return to_int(member(header, name), name); }

double milliseconds_member(const json& header, const char* name) {
  const json& value = member(header, name);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    reject(fmt::format("{} in its header is not a finite number", name));
  }
  return value.get<double>();
}

RequestKey key_member(const json& header, const char* name) {
  const std::string text = text_member(header, name);
  RequestKey key;
  std::size_t bytes = 0;
  const int failed =
      sodium_hex2bin(key.bytes.data(), key.bytes.size(), text.data(), text.size(), nullptr, &bytes, nullptr);
  if (failed != 0 || bytes != key.bytes.size() || key.hex() != text) {
    reject(fmt::format("{} in its header is not a key", name));
  }
  return key;
}

CompilerVersion compiler_member(const json& header, const char* name) {
  const json& value = member(header, name);
  if (!value.is_array() || value.size() != 3) reject(fmt::format("{} in its header is not three numbers", name));
  return {to_int(value[0], name), to_int(value[1], name), to_int(value[2], name)};
}

Artifact from_header(std::string_view text) {
  const json header = json::parse(text, nullptr, false);
  if (!header.is_object()) reject("its header is not a JSON object");
  Artifact artifact;
  artifact.key = key_member(header, "request_key");
  artifact.compiler = compiler_member(header, "compiler");
  artifact.descriptor = text_member(header, "descriptor");
  artifact.target = text_member(header, "target");
  artifact.entry_point = text_member(header, "entry_point");
  artifact.resources.registers = int_member(header, "registers");
  artifact.resources.spill_store_bytes = int_member(header, "spill_store_bytes");
  artifact.resources.spill_load_bytes = int_member(header, "spill_load_bytes");
  artifact.resources.stack_bytes = int_member(header, "stack_bytes");
  artifact.resources.static_shared_memory = int_member(header, "static_shared_memory");
  artifact.resources.barriers = int_member(header, "barriers");
  artifact.compile_milliseconds = milliseconds_member(header, "compile_milliseconds");
  artifact.code = code_member(header);
  artifact.inputs = inputs_member(header);
  return artifact;
}

/// Checks magic, schema, lengths and hash, in that order. Returns the header's length.
std::size_t check_frame(std::string_view bytes) {
  if (const std::string damage = prefix_damage(bytes, bytes.size()); !damage.empty()) reject(damage);
  const auto hash = content_hash(bytes.substr(0, bytes.size() - kHashBytes));
  if (as_text(hash) != bytes.substr(bytes.size() - kHashBytes)) reject("its content does not match its hash");
  return number_at<std::uint32_t>(bytes, 12);
}

}  // namespace

std::string prefix_damage(std::string_view front, std::uint64_t size) {
  if (size < kPrefixBytes + kHashBytes || front.size() < kPrefixBytes) {
    return fmt::format("it is too short: {} bytes, and the smallest entry has {}", size, kPrefixBytes + kHashBytes);
  }
  if (!front.starts_with(kMagic)) return "it does not start with the magic CUBITART";
  const auto schema = number_at<std::uint32_t>(front, 8);
  if (schema != kSchemaVersion) {
    return fmt::format("it has schema version {}, and this cubit reads {}", schema, kSchemaVersion);
  }
  if (size > kMaximumEntryBytes) {
    return fmt::format("it is too long: {} bytes, and the largest entry has {}", size, kMaximumEntryBytes);
  }
  const std::uint64_t header = number_at<std::uint32_t>(front, 12);
  const auto cubin = number_at<std::uint64_t>(front, 16);
  const std::uint64_t payload = size - kPrefixBytes - kHashBytes;
  if (header > kMaximumHeaderBytes || header > payload || cubin != payload - header) {
    return fmt::format("its lengths do not add up: header {}, cubin {}, file {} bytes", header, cubin, size);
  }
  return cubin == 0 ? "it holds no cubin" : "";
}

std::string serialise(const Artifact& artifact) {
  // The descriptor is for people, so bytes that are not UTF-8 are replaced instead of failing the store.
  const std::string header = header_of(artifact).dump(-1, ' ', false, json::error_handler_t::replace);
  if (header.size() > kMaximumHeaderBytes) {
    throw Failure(Status::io_error, "cache entry", fmt::format("its header of {} bytes is too long", header.size()));
  }
  const std::uint64_t size = kPrefixBytes + header.size() + artifact.cubin.size() + kHashBytes;
  if (size > kMaximumEntryBytes) {
    throw Failure(Status::io_error, "cache entry",
                  fmt::format("it has {} bytes, and the largest has {}", size, kMaximumEntryBytes));
  }
  std::string bytes(kMagic);
  append_number(bytes, static_cast<std::uint32_t>(kSchemaVersion));
  append_number(bytes, static_cast<std::uint32_t>(header.size()));
  append_number(bytes, static_cast<std::uint64_t>(artifact.cubin.size()));
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(artifact.cubin.data()), artifact.cubin.size());
  bytes += as_text(content_hash(bytes));
  return bytes;
}

Artifact deserialise(std::string_view bytes) {
  const std::size_t header = check_frame(bytes);
  Artifact artifact = from_header(bytes.substr(kPrefixBytes, header));
  const std::string_view cubin = bytes.substr(kPrefixBytes + header, bytes.size() - kPrefixBytes - header - kHashBytes);
  const auto* first = reinterpret_cast<const std::byte*>(cubin.data());
  artifact.cubin.assign(first, first + cubin.size());
  return artifact;
}

}  // namespace cubit::runtime
