// Makes pairs of keys and signatures with libsodium.
#include "runtime/bundle/sign.hpp"

#include <sodium.h>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

constexpr std::string_view kSecretPrefix = "cubit secret key ";

using Seed = std::array<unsigned char, crypto_sign_SEEDBYTES>;

struct SigningKey {
  PublicKey signer;
  std::array<unsigned char, crypto_sign_SECRETKEYBYTES> secret{};
};

SigningKey key_of_seed(const Seed& seed) {
  if (sodium_init() < 0) throw Failure(Status::internal, "libsodium", "it could not be initialised");
  SigningKey key;
  crypto_sign_seed_keypair(key.signer.bytes.data(), key.secret.data(), seed.data());
  return key;
}

Seed parse_secret(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  Seed seed{};
  std::size_t bytes = 0;
  const bool has_prefix = text.starts_with(kSecretPrefix);
  const std::string_view digits = has_prefix ? text.substr(kSecretPrefix.size()) : "";
  const char* end = nullptr;
  if (!has_prefix ||
      sodium_hex2bin(seed.data(), seed.size(), digits.data(), digits.size(), nullptr, &bytes, &end) != 0 ||
      bytes != seed.size() || end != digits.data() + digits.size()) {
    // The text is not repeated, because it may be a secret.
    throw Failure(Status::invalid_argument, "the secret key", "its file does not hold a secret key",
                  "give the file that cubit bundle keygen wrote");
  }
  return seed;
}

}  // namespace

KeyPair make_keys() {
  if (sodium_init() < 0) throw Failure(Status::internal, "libsodium", "it could not be initialised");
  Seed seed{};
  randombytes_buf(seed.data(), seed.size());
  std::string digits(2 * seed.size() + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), seed.data(), seed.size());
  digits.back() = '\n';
  return {std::string(kSecretPrefix) + digits, key_of_seed(seed).signer};
}

BundleSignature sign_root(const ContentHash& root, std::string_view secret) {
  const SigningKey key = key_of_seed(parse_secret(secret));
  const std::string message = signed_message(root);
  BundleSignature signature{.signer = key.signer};
  crypto_sign_detached(signature.bytes.data(), nullptr, reinterpret_cast<const unsigned char*>(message.data()),
                       message.size(), key.secret.data());
  return signature;
}

}  // namespace cubit::runtime
