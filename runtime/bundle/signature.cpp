// Parses public keys, and verifies signatures with libsodium.
#include "runtime/bundle/signature.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "base/error.hpp"

namespace cubit::runtime {

static_assert(sizeof(PublicKey::bytes) == crypto_sign_PUBLICKEYBYTES);
static_assert(sizeof(BundleSignature::bytes) == crypto_sign_BYTES);

std::string PublicKey::hex() const { return RequestKey{bytes}.hex(); }

PublicKey parse_public_key(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  const std::size_t last = text.find_last_not_of(kBlank);
  const std::string_view digits = first == std::string_view::npos ? "" : text.substr(first, last - first + 1);
  PublicKey key;
  std::size_t bytes = 0;
  const char* end = nullptr;
  const int failed =
      sodium_hex2bin(key.bytes.data(), key.bytes.size(), digits.data(), digits.size(), nullptr, &bytes, &end);
  if (failed != 0 || bytes != key.bytes.size() || end != digits.data() + digits.size()) {
    throw Failure(Status::invalid_argument, fmt::format("the key \"{}\"", digits.substr(0, 80)),
                  "it is not a public key", "a public key has 64 hexadecimal digits (cubit bundle keygen)");
  }
  return key;
}

std::vector<PublicKey> parse_public_keys(std::string_view text) {
  std::vector<PublicKey> keys;
  for (std::size_t first = 0; !text.empty() && first <= text.size();) {
    const std::size_t last = std::min(text.find(':', first), text.size());
    keys.push_back(parse_public_key(text.substr(first, last - first)));
    first = last + 1;
  }
  return keys;
}

std::string signed_message(const ContentHash& root) {
  return "cubit bundle root, version 1: " + RequestKey{root}.hex();
}

bool is_signature_of(const BundleSignature& signature, const ContentHash& root) {
  const std::string message = signed_message(root);
  return crypto_sign_verify_detached(signature.bytes.data(), reinterpret_cast<const unsigned char*>(message.data()),
                                     message.size(), signature.signer.bytes.data()) == 0;
}

}  // namespace cubit::runtime
