// Computes keys and hashes: BLAKE2b-256 over length-tagged fields.
#include "runtime/cache/key.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

static_assert(sizeof(RequestKey::bytes) == crypto_generichash_BYTES);

/// Lets libsodium choose the fastest BLAKE2b for this machine. The call is thread-safe, and repeated calls do nothing.
void initialise_hashing() {
  static const int result = sodium_init();
  if (result < 0) throw Failure(Status::internal, "libsodium", "it could not be initialised");
}

class Hash {
 public:
  Hash() {
    initialise_hashing();
    crypto_generichash_init(&state_, nullptr, 0, crypto_generichash_BYTES);
  }

  /// Hashes name and value, each after its length, so that moving a byte between neighbouring fields changes the hash.
  void field(std::string_view name, std::string_view value) {
    tagged(name);
    tagged(value);
  }

  void count(std::string_view name, std::uint64_t value) {
    tagged(name);
    number(value);
  }

  void raw(std::string_view bytes) {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }

  std::array<std::uint8_t, 32> finish() {
    std::array<std::uint8_t, 32> result{};
    crypto_generichash_final(&state_, result.data(), result.size());
    return result;
  }

 private:
  void number(std::uint64_t value) {
    std::array<unsigned char, 8> bytes{};
    for (unsigned char& byte : bytes) {
      byte = static_cast<unsigned char>(value & 0xff);
      value >>= 8;
    }
    crypto_generichash_update(&state_, bytes.data(), bytes.size());
  }

  void tagged(std::string_view value) {
    number(value.size());
    raw(value);
  }

  crypto_generichash_state state_;
};

}  // namespace

std::string RequestKey::hex() const {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

RequestKey request_key(const codegen::KernelSource& source, int schema) {
  Hash hash;
  hash.count("cubit schema", static_cast<std::uint64_t>(schema));
  hash.field("template name", source.template_name);
  hash.field("template text", source.template_text);
  hash.count("headers", source.headers.size());
  for (const codegen::Header& header : source.headers) hash.field(header.name, header.text);
  hash.count("options", source.options.size());
  for (const std::string& option : source.options) hash.field("option", option);
  hash.field("target", source.target);
  hash.field("entry point", source.entry_point);
  if (source.code == codegen::Code::ptx) hash.field("code", "ptx");  // cubins keep the keys of earlier versions
  return {hash.finish()};
}

std::string artifact_id(const RequestKey& key, const CompilerVersion& compiler) {
  return fmt::format("{}-nvrtc{}", key.hex(), compiler.text());
}

std::array<std::uint8_t, 32> content_hash(std::string_view bytes) {
  Hash hash;
  hash.raw(bytes);
  return hash.finish();
}

std::size_t RequestKeyHash::operator()(const RequestKey& key) const noexcept {
  // The key is a uniform hash itself.
  std::size_t result = 0;
  std::memcpy(&result, key.bytes.data(), sizeof result);
  return result;
}

}  // namespace cubit::runtime
