// Ed25519 signatures of bundles. A signature covers the root, and the root stands for every byte but the signature.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle/format.hpp"

namespace cubit::runtime {

/// Parses 64 hexadecimal digits; white space around the digits is ignored. Throws Failure(invalid_argument).
PublicKey parse_public_key(std::string_view text);

/// Parses public keys that colons separate; "" is no key. Throws Failure(invalid_argument) if one part is not a key.
std::vector<PublicKey> parse_public_keys(std::string_view text);

/// What the signature signs: a fixed text, so that no other use of the key signs the same bytes, and the root.
std::string signed_message(const ContentHash& root);

/// True if the signer signed this root.
bool is_signature_of(const BundleSignature& signature, const ContentHash& root);

}  // namespace cubit::runtime
