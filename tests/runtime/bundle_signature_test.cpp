// Proves: a signed bundle opens and names its signer; a signature of another root or by another key is refused; and
// signing changes nothing but the signature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "runtime/bundle/sign.hpp"
#include "runtime/bundle/writer.hpp"
#include "tests/runtime/bundle_edits.hpp"

namespace cubit::runtime {
namespace {

using testing::HasSubstr;

Bundle opened_signed(std::string_view bytes) { return Bundle::of_memory("test", test::as_bytes(bytes)); }

std::string refusal(std::string_view bytes) {
  try {
    opened_signed(bytes).verify();
    return {};
  } catch (const Failure& failure) {
    return failure.what();
  }
}

TEST(BundleSignature, ASignedBundleNamesItsSigner) {
  const KeyPair keys = make_keys();
  const std::string plain = test::sample_bundle(40);
  const std::string bytes = test::signed_by(plain, keys);
  EXPECT_EQ(opened_signed(bytes).signer(), keys.signer);
  EXPECT_EQ(opened_signed(bytes).root(), opened_signed(plain).root());
  EXPECT_EQ(opened_signed(plain).signer(), std::nullopt);
  EXPECT_EQ(bytes.substr(kBundleHeaderBytes), plain.substr(kBundleHeaderBytes));
  EXPECT_EQ(bytes.substr(0, kBundleSignatureOffset), plain.substr(0, kBundleSignatureOffset));
  EXPECT_EQ(refusal(bytes), "");
}

TEST(BundleSignature, EveryFlippedBitOfTheHeaderIsRefused) {
  std::string bytes = test::signed_by(test::sample_bundle(4), make_keys());
  for (std::size_t bit = 0; bit < 8 * kBundleHeaderBytes; ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8))); };
    flip();
    EXPECT_THROW(opened_signed(bytes), Failure) << "bit " << bit;
    flip();
  }
}

TEST(BundleSignature, ChangedContentUnderTheOldSignatureIsRefused) {
  std::string bytes = test::signed_by(test::sample_bundle(40), make_keys());
  bytes[bytes.size() - 3] ^= 1;
  test::repair_hashes(bytes);
  EXPECT_THAT(refusal(bytes), HasSubstr("its signature does not match its root"));
}

TEST(BundleSignature, TheSignatureOfAnotherBundleIsRefused) {
  const KeyPair keys = make_keys();
  const std::string other = test::signed_by(test::sample_bundle(41), keys);
  std::string bytes = test::sample_bundle(40);
  const std::size_t length = kBundleHeaderBytes - kBundleSignatureOffset;
  bytes.replace(kBundleSignatureOffset, length, other, kBundleSignatureOffset, length);
  EXPECT_THAT(refusal(bytes), HasSubstr("its signature does not match its root"));
}

TEST(BundleSignature, KeysSurviveTheirTexts) {
  const KeyPair keys = make_keys();
  EXPECT_EQ(parse_public_key(" " + keys.signer.hex() + "\n"), keys.signer);
  EXPECT_NE(make_keys().signer, keys.signer);
  EXPECT_EQ(sign_root({}, keys.secret).bytes, sign_root({}, keys.secret).bytes);
  EXPECT_EQ(parse_public_keys(""), std::vector<PublicKey>{});
  EXPECT_EQ(parse_public_keys(keys.signer.hex() + ":" + keys.signer.hex()).size(), 2u);
  for (const std::string& text : {std::string(":"), keys.signer.hex() + ":", std::string(" ")}) {
    EXPECT_THROW(static_cast<void>(parse_public_keys(text)), Failure) << text;
  }
  for (const std::string& text : {std::string(), std::string("12"), std::string(64, 'g'), keys.signer.hex() + "00",
                                  keys.signer.hex() + " 0", keys.secret}) {
    EXPECT_THROW(static_cast<void>(parse_public_key(text)), Failure) << text;
  }
  for (const std::string& text : {std::string(), keys.signer.hex(), keys.secret + "0", keys.secret.substr(1)}) {
    EXPECT_THROW(static_cast<void>(sign_root({}, text)), Failure);
  }
}

}  // namespace
}  // namespace cubit::runtime
