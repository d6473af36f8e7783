// Proves: a bundle holds what was added, byte for byte and in whatever order it was added; and no damaged byte, missing
// end or forged offset makes a reader return an entry that differs from what was added.
#include "runtime/bundle/bundle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "runtime/bundle/writer.hpp"
#include "tests/runtime/bundle_edits.hpp"
#include "tests/runtime/support.hpp"

// The fuzzer's entry, so that the tests run the same code without libFuzzer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cubit::runtime {
namespace {

using testing::HasSubstr;

std::vector<RequestKey> keys_of(const std::vector<Artifact>& artifacts) {
  std::vector<RequestKey> keys;
  for (const Artifact& artifact : artifacts) keys.push_back(artifact.key);
  return keys;
}

Bundle opened(std::string_view bytes) { return Bundle::of_memory("test", test::as_bytes(bytes)); }

/// Returns why the bundle is refused or found damaged, or "".
std::string damage_of(std::string_view bytes) {
  try {
    opened(bytes).verify();
    return {};
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::io_error);
    return failure.what();
  }
}

/// The number of entries in `entries` that equal none of the artifacts.
std::size_t strangers(const std::vector<BundleEntry>& entries, const std::vector<Artifact>& artifacts) {
  return static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), [&](const BundleEntry& entry) {
    return std::none_of(artifacts.begin(), artifacts.end(),
                        [&](const Artifact& artifact) { return test::is_same(entry, artifact); });
  }));
}

/// One entry, a full leaf, one record more than a leaf, and three levels.
class BundleSizes : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Bundle, BundleSizes, testing::Values(0, 1, 31, 32, 33, 64, 65, 2048, 2049, 2100));

TEST_P(BundleSizes, EveryEntryIsFoundAndNothingElse) {
  const std::vector<Artifact> artifacts = test::sample_artifacts(GetParam());
  const std::vector<RequestKey> keys = keys_of(artifacts);
  const std::string bytes = test::sample_bundle(GetParam());
  const Bundle bundle = opened(bytes);
  EXPECT_EQ(bundle.entries(), artifacts.size());
  EXPECT_EQ(bundle.bytes(), bytes.size());
  EXPECT_NO_THROW(bundle.verify());
  for (const Artifact& artifact : artifacts) {
    const auto records = bundle.find(artifact.key);
    const auto record = std::find_if(records.begin(), records.end(),
                                     [&](const BundleRecord& each) { return each.compiler == artifact.compiler; });
    ASSERT_NE(record, records.end()) << artifact.descriptor;
    EXPECT_TRUE(test::is_same(bundle.load(*record), artifact));
    EXPECT_EQ(records.size(), std::count(keys.begin(), keys.end(), artifact.key));
  }
  RequestKey key;
  EXPECT_TRUE(bundle.find(key).empty());
  key.bytes.fill(0xff);
  EXPECT_TRUE(bundle.find(key).empty());
  key.bytes = content_hash("another");
  EXPECT_TRUE(bundle.find(key).empty());
}

TEST(BundleTest, TheBytesDependOnTheEntriesAlone) {
  std::vector<Artifact> artifacts = test::sample_artifacts(100);
  const std::string bytes = test::sample_bundle(100);
  std::mt19937 random(1);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(artifacts.begin(), artifacts.end(), random);
    BundleWriter writer;
    for (Artifact artifact : artifacts) {
      artifact.compile_milliseconds = round;
      writer.add(pack(artifact, "0.1.0"));
    }
    EXPECT_EQ(writer.bytes(), bytes);
  }
}

TEST(BundleTest, CopiedPartsMakeTheSameBytesAsOneRun) {
  const std::vector<Artifact> artifacts = test::sample_artifacts(100);
  std::vector<BundleWriter> parts(3);
  for (std::size_t i = 0; i < artifacts.size(); ++i) {
    parts[i % 3].add(pack(artifacts[i], "0.1.0"));
    if (i % 5 == 0) parts[(i + 1) % 3].add(pack(artifacts[i], "0.1.0"));  // parts may overlap
  }
  BundleWriter merged;
  for (std::size_t part : {2, 0, 1}) {
    const std::string bytes = parts[part].bytes();
    const Bundle bundle = opened(bytes);
    for (std::uint64_t i = 0; i < bundle.entries(); ++i) merged.add(copied(bundle, bundle.record(i)));
  }
  EXPECT_EQ(merged.bytes(), test::sample_bundle(100));
}

TEST(BundleTest, OneKernelThatTwoDescriptorsNameIsOneEntryInEitherOrder) {
  Artifact first = test::sample_artifacts(1).front();
  Artifact second = first;
  second.descriptor = "another:1";
  BundleWriter forward;
  BundleWriter backward;
  forward.add(pack(first, "0.1.0"));
  forward.add(pack(second, "0.1.0"));
  backward.add(pack(second, "0.1.0"));
  backward.add(pack(first, "0.1.0"));
  EXPECT_EQ(forward.entries(), 1u);
  EXPECT_EQ(forward.bytes(), backward.bytes());
}

TEST(BundleTest, OtherCodeForTheSameKeyAndCompilerIsRefused) {
  Artifact artifact = test::sample_artifacts(1).front();
  BundleWriter writer;
  writer.add(pack(artifact, "0.1.0"));
  artifact.cubin.push_back(std::byte{1});
  EXPECT_THROW(writer.add(pack(artifact, "0.1.0")), Failure);
  artifact.cubin.clear();
  EXPECT_THROW(writer.add(pack(artifact, "0.1.0")), Failure);
}

TEST(BundleTest, AFileGivesWhatMemoryGives) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.cubit";
  test::write_whole(path, test::sample_bundle(40));
  const Bundle bundle = Bundle::open(path);
  EXPECT_NO_THROW(bundle.verify());
  EXPECT_EQ(bundle.root(), opened(test::sample_bundle(40)).root());
  EXPECT_THROW(Bundle::open(folder.path()), Failure);
  EXPECT_THROW(Bundle::open(folder.path() / "none"), Failure);
}

/// A mapped file would end the process here.
TEST(BundleTest, AFileThatShrinksWhileItIsOpenIsDamage) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.cubit";
  test::write_whole(path, test::sample_bundle(40));
  const Bundle bundle = Bundle::open(path);
  const BundleRecord record = bundle.record(7);
  for (const std::uintmax_t size : {5000, 10}) {
    std::filesystem::resize_file(path, size);
    EXPECT_THROW(static_cast<void>(bundle.load(record)), Failure);
    EXPECT_THROW(static_cast<void>(bundle.find(record.key)), Failure);
  }
}

TEST(BundleTest, EveryTruncationAndEveryAdditionIsRefused) {
  const std::string bytes = test::sample_bundle(40);
  for (std::size_t length = 0; length < bytes.size(); length += 64) {
    EXPECT_THROW(opened(std::string_view(bytes).substr(0, length)), Failure) << length;
  }
  EXPECT_THROW(opened(std::string_view(bytes).substr(0, bytes.size() - 1)), Failure);
  EXPECT_THROW(opened(bytes + '\0'), Failure);
}

TEST(BundleTest, EveryFlippedBitIsFoundAndGivesNoOtherEntry) {
  const std::vector<Artifact> artifacts = test::sample_artifacts(4);
  std::string bytes = test::sample_bundle(4);
  const std::vector<RequestKey> keys = keys_of(artifacts);
  ASSERT_EQ(damage_of(bytes), "");
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8))); };
    flip();
    EXPECT_NE(damage_of(bytes), "") << "bit " << bit;
    if (bit % 64 == 0) {
      EXPECT_EQ(strangers(test::load_all(bytes, keys), artifacts), 0u) << "bit " << bit;
    }
    flip();
  }
}

/// `rounds` random mutations of a bundle of two index levels: bytes set, ranges copied, and the end cut off.
void expect_no_stranger(int rounds, unsigned seed) {
  const std::vector<Artifact> artifacts = test::sample_artifacts(40);
  const std::vector<RequestKey> keys = {artifacts[3].key, artifacts[0].key, artifacts[39].key};
  const std::string original = test::sample_bundle(40);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  std::size_t loaded = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = original;
    for (std::size_t change = 0; change <= below(3); ++change) {
      if (below(4) == 0) {
        const std::size_t length = 1 + below(300);
        const std::string copy = bytes.substr(below(bytes.size() - length), length);
        bytes.replace(below(bytes.size() - length), length, copy);
      } else {
        bytes[below(bytes.size())] = static_cast<char>(random());
      }
    }
    if (below(50) == 0) bytes.resize(below(bytes.size()));
    const auto entries = test::load_all(bytes, keys);
    loaded += entries.size();
    ASSERT_EQ(strangers(entries, artifacts), 0u) << "round " << round;
  }
  EXPECT_GT(loaded, 0u) << "no mutation left an entry readable, so the test shows nothing";
}

TEST(BundleTest, AThousandMutationsGiveNoOtherEntry) { expect_no_stranger(1'000, 1); }
TEST(BundleSlowTest, AHundredThousandMutationsGiveNoOtherEntry) { expect_no_stranger(100'000, 2); }

/// Runs the fuzzer's check on random edits, with repaired hashes and without.
void run_fuzzer(int rounds, unsigned seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::uint8_t> edits(1 + 5 * (1 + random() % 4));
    for (std::uint8_t& byte : edits) byte = static_cast<std::uint8_t>(random());
    // Most positions in the second half of the rounds are those of header, records and links.
    for (std::size_t i = 1; i < edits.size(); i += 5) edits[i + 2] = edits[i + 3] = 0;
    EXPECT_EQ(LLVMFuzzerTestOneInput(edits.data(), edits.size()), 0);
  }
}

TEST(BundleTest, ForgedBundlesAreReadOrRefusedNeverWorse) { run_fuzzer(1'000, 1); }
TEST(BundleSlowTest, ManyForgedBundlesAreReadOrRefusedNeverWorse) { run_fuzzer(100'000, 2); }

TEST(BundleTest, TheReasonNamesTheFirstThingWrong) {
  const std::string good = test::sample_bundle(40);
  EXPECT_THAT(damage_of(""), HasSubstr("too short"));
  const auto with = [&](std::size_t offset, char value, bool repaired) {
    std::string bytes = good;
    bytes[offset] = value;
    if (repaired) test::repair_hashes(bytes);
    return damage_of(bytes);
  };
  constexpr std::size_t kLeaf = kBundlePageBytes;
  EXPECT_THAT(with(0, 'X', false), HasSubstr("magic"));
  EXPECT_THAT(with(8, 9, false), HasSubstr("format version 9"));
  EXPECT_THAT(with(40, 1, false), HasSubstr("root"));
  EXPECT_THAT(with(200, 1, true), HasSubstr("padding of its header"));
  EXPECT_THAT(with(16, 1, true), HasSubstr("its header says"));
  EXPECT_THAT(with(30, 1, true), HasSubstr("does not fit"));
  EXPECT_THAT(with(kLeaf + 70, 1, false), HasSubstr("page 0 of level 0"));
  EXPECT_THAT(with(kLeaf + 35, '\xff', true), HasSubstr("compiler version"));
  EXPECT_THAT(with(kLeaf + 44, 2, true), HasSubstr("kind of code"));
  EXPECT_THAT(with(kLeaf + 55, 1, true), HasSubstr("not inside the file"));
  EXPECT_THAT(with(kLeaf + 48, 1, true), HasSubstr("a gap or an overlap"));
  EXPECT_THAT(with(kLeaf + 63, 1 << 5, true), HasSubstr("out of range"));
  EXPECT_THAT(with(kLeaf + 0, '\xff', true), HasSubstr("another key"));
  EXPECT_THAT(with(good.size() - 3, 1, false), HasSubstr("does not match its hash"));
  EXPECT_THAT(with(good.size() - 3, 1, true), HasSubstr("the code of the entry"));
  EXPECT_THAT(with(2 * kLeaf + 9 * kBundleRecordBytes, 1, true), HasSubstr("padding of its index"));
}

}  // namespace
}  // namespace cubit::runtime
