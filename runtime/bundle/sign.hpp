// Makes keys and signs bundles, for the tool. Only the library of the writer contains this code.
#pragma once

#include <string>
#include <string_view>

#include "runtime/bundle/signature.hpp"

namespace cubit::runtime {

/// A new pair of keys. `secret` is the text of a secret key file: "cubit secret key " and 64 hexadecimal digits.
struct KeyPair {
  std::string secret;
  PublicKey signer;
};
KeyPair make_keys();

/// Signs the root. Throws Failure(invalid_argument) if `secret` is not the text of a secret key file.
BundleSignature sign_root(const ContentHash& root, std::string_view secret);

}  // namespace cubit::runtime
