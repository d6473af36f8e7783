// Proves: an artifact survives its file unchanged, and a file with any defect is refused with the reason.
#include "runtime/cache/artifact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

using testing::HasSubstr;

constexpr std::size_t kPrefixBytes = 24;
constexpr std::size_t kHashBytes = 32;

Artifact sample() { return test::small_artifact(test::small_source()); }

/// Returns why deserialise refuses `bytes`, or "".
std::string refusal(std::string_view bytes) {
  try {
    static_cast<void>(deserialise(bytes));
    return {};
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::io_error);
    return failure.what();
  }
}

/// Makes a file with the JSON text `header` that is correct in every other respect, as only a hostile writer would make
/// it.
std::string forged(std::string_view header, std::string_view cubin = "cubin") {
  std::string bytes = "CUBITART";
  const auto number = [&](std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  number(kSchemaVersion, 4);
  number(header.size(), 4);
  number(cubin.size(), 8);
  bytes.append(header).append(cubin);
  const auto hash = content_hash(bytes);
  return bytes.append(reinterpret_cast<const char*>(hash.data()), hash.size());
}

std::string good_header() {
  const std::string bytes = serialise(sample());
  return bytes.substr(kPrefixBytes, bytes.size() - kPrefixBytes - kHashBytes - sample().cubin.size());
}

TEST(ArtifactTest, EveryFieldSurvives) {
  const Artifact before = sample();
  const Artifact after = deserialise(serialise(before));
  EXPECT_EQ(after.key, before.key);
  EXPECT_EQ(after.compiler, before.compiler);
  EXPECT_EQ(after.descriptor, before.descriptor);
  EXPECT_EQ(after.target, before.target);
  EXPECT_EQ(after.entry_point, before.entry_point);
  EXPECT_EQ(after.resources, before.resources);
  EXPECT_EQ(after.compile_milliseconds, before.compile_milliseconds);
  EXPECT_EQ(after.cubin, before.cubin);
}

TEST(ArtifactTest, TheKindOfCodeSurvives) {
  Artifact artifact = sample();
  EXPECT_EQ(deserialise(serialise(artifact)).code, codegen::Code::cubin);
  artifact.code = codegen::Code::ptx;
  EXPECT_EQ(deserialise(serialise(artifact)).code, codegen::Code::ptx);
}

TEST(ArtifactTest, ADescriptorThatIsNotUtf8Survives) {
  Artifact artifact = sample();
  artifact.descriptor = "bad \xff byte";
  EXPECT_THAT(deserialise(serialise(artifact)).descriptor, HasSubstr("bad "));
}

TEST(ArtifactTest, SameArtifactSameBytes) { EXPECT_EQ(serialise(sample()), serialise(sample())); }

TEST(ArtifactTest, EveryTruncationIsRefused) {
  const std::string bytes = serialise(sample());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(refusal(std::string_view(bytes).substr(0, length)), "") << length << " bytes";
  }
  EXPECT_NE(refusal(bytes + '\0'), "");
}

TEST(ArtifactTest, EverySingleBitFlipIsRefused) {
  std::string bytes = serialise(sample());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8))); };
    flip();
    EXPECT_NE(refusal(bytes), "") << "bit " << bit;
    flip();
  }
  EXPECT_EQ(refusal(bytes), "");
}

TEST(ArtifactTest, TheReasonNamesTheFirstThingWrong) {
  const std::string good = serialise(sample());
  EXPECT_THAT(refusal(""), HasSubstr("too short"));
  std::string bytes = good;
  bytes[0] = 'X';
  EXPECT_THAT(refusal(bytes), HasSubstr("magic"));
  bytes = good;
  bytes[8] = kSchemaVersion + 1;
  EXPECT_THAT(refusal(bytes), HasSubstr("schema version 2"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("lengths"));
  bytes = good;
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_THAT(refusal(bytes), HasSubstr("hash"));
}

TEST(ArtifactTest, LengthsThatOverflowAreRefused) {
  for (const std::size_t offset : {12u, 16u}) {
    std::string bytes = serialise(sample());
    for (std::size_t i = offset; i < offset + (offset == 12 ? 4 : 8); ++i) bytes[i] = '\xff';
    EXPECT_THAT(refusal(bytes), HasSubstr("lengths")) << offset;
  }
}

TEST(ArtifactTest, AForgedFileWithTheGoodHeaderIsTaken) {
  // Checks the premise of the tests of bad headers below.
  EXPECT_EQ(refusal(forged(good_header())), "");
}

TEST(ArtifactTest, EveryHeaderFieldIsNeededAndHasItsType) {
  for (const char* name :
       {"request_key", "compiler", "descriptor", "target", "entry_point", "registers", "spill_store_bytes",
        "spill_load_bytes", "stack_bytes", "static_shared_memory", "barriers", "compile_milliseconds"}) {
    nlohmann::json header = nlohmann::json::parse(good_header());
    ASSERT_EQ(header.erase(name), 1u) << name;
    EXPECT_THAT(refusal(forged(header.dump())), HasSubstr(name)) << "missing";
    header[name] = nlohmann::json::object();
    EXPECT_THAT(refusal(forged(header.dump())), HasSubstr(name)) << "of another type";
  }
}

TEST(ArtifactTest, NumbersOutOfRangeAreRefused) {
  for (const char* value : {"-1", "2147483648", "1e3", "1.5", "99999999999999999999", "null", "\"10\""}) {
    std::string header = good_header();
    const std::string before = "\"registers\":10";
    header.replace(header.find(before), before.size(), std::string("\"registers\":") + value);
    EXPECT_THAT(refusal(forged(header)), HasSubstr("registers")) << value;
  }
}

TEST(ArtifactTest, HostileJsonIsRefused) {
  for (const std::string& header :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"), std::string(500'000, '['),
        std::string(R"({"request_key":")") + std::string(64, 'g') + "\"}", good_header() + "x"}) {
    EXPECT_NE(refusal(forged(header)), "") << header.substr(0, 80);
  }
}

TEST(ArtifactTest, MutatedHeadersUnderAGoodHashAreTakenOrRefusedNeverWorse) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string header = good_header();
    for (int change = 0; change < 3; ++change) header[random() % header.size()] = static_cast<char>(random());
    static_cast<void>(refusal(forged(header)));
  }
}

}  // namespace
}  // namespace cubit::runtime
