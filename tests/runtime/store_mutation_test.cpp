// Proves: whatever happens to the bytes of an entry or of a bundle, a store hands on what was compiled, or nothing. The
// mutations are random: bytes and bits set, ranges copied or zeroed, ends cut off or added, and files swapped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <random>

#include "base/error.hpp"
#include "runtime/bundle/bundle_store.hpp"
#include "runtime/cache/disk_cache.hpp"
#include "runtime/cache/entry_files.hpp"
#include "tests/runtime/bundle_edits.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

constexpr std::size_t kEntries = 40;

StoreRequest request_for(const Artifact& artifact) {
  return {.key = artifact.key,
          .target = artifact.target,
          .entry_point = artifact.entry_point,
          .code = artifact.code,
          .exact = artifact.compiler};
}

class Mutations {
 public:
  explicit Mutations(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }

  /// Changes `bytes` in one to three ways. `other` is a good file whose parts may take the place of parts of `bytes`.
  std::string mutate(std::string bytes, const std::string& other) {
    for (std::size_t change = 0, changes = 1 + below(3); change < changes && !bytes.empty(); ++change) {
      const std::size_t position = below(bytes.size());
      const std::size_t length = 1 + below(std::min<std::size_t>(300, bytes.size() - position));
      switch (below(7)) {
        case 0:
          bytes[position] = static_cast<char>(random_());
          break;
        case 1:
          bytes[position] = static_cast<char>(bytes[position] ^ (1 << below(8)));
          break;
        case 2:
          bytes.replace(below(bytes.size() - length + 1), length, bytes.substr(position, length));
          break;
        case 3:
          bytes.replace(position, length, length, '\0');
          break;
        case 4:
          bytes.resize(position);
          break;
        case 5:
          bytes.append(length, static_cast<char>(random_()));
          break;
        default:
          bytes.replace(position, length, other, std::min(position, other.size()), length);
          break;
      }
    }
    return below(100) == 0 ? other : bytes;
  }

 private:
  std::mt19937 random_;
};

/// `rounds` mutations of entries, each below its own name in a cache folder.
void expect_entries_are_good_or_missing(int rounds, unsigned seed) {
  const test::TemporaryFolder folder;
  const DiskCache cache(folder.path(), {});
  const std::vector<Artifact> artifacts = test::sample_artifacts(kEntries);
  std::vector<std::string> entries;
  for (const Artifact& artifact : artifacts) {
    ASSERT_TRUE(cache.publish(artifact));
    entries.push_back(serialise(artifact));
  }
  Mutations mutations(seed);
  std::size_t loaded = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t chosen = mutations.below(kEntries);
    const std::string id = artifact_id(artifacts[chosen].key, artifacts[chosen].compiler);
    test::write_whole(entry_path(folder.path(), id),
                      mutations.mutate(entries[chosen], entries[mutations.below(kEntries)]));
    const auto found = cache.find(request_for(artifacts[chosen]));
    loaded += found ? 1 : 0;
    ASSERT_TRUE(!found || serialise(*found) == entries[chosen]) << "round " << round;
  }
  EXPECT_GT(loaded, 0u) << "no mutation left an entry as it was, so the test shows nothing";
  EXPECT_LT(loaded, static_cast<std::size_t>(rounds) / 4);
}

/// `rounds` mutations of a bundle that the engine trusts as a file, or because one of `signers` signed it. With signers
/// a hostile writer repairs all hashes of every second mutation.
void expect_bundles_are_good_or_missing(int rounds, unsigned seed, const std::string& original,
                                        const std::vector<PublicKey>& signers) {
  const std::vector<Artifact> artifacts = test::sample_artifacts(kEntries);
  const std::string other = test::sample_bundle(kEntries + 3);
  Mutations mutations(seed);
  std::size_t loaded = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = mutations.mutate(original, other);
    if (!signers.empty() && round % 2 == 0) test::repair_hashes(bytes);
    const BundleStore store(BundleMemory{"mutated", test::as_bytes(bytes)}, signers, {});
    for (const std::size_t index : {std::size_t{0}, std::size_t{5}, mutations.below(kEntries)}) {
      const Artifact& artifact = artifacts[index];
      const auto found = store.find(request_for(artifact));
      loaded += found ? 1 : 0;
      ASSERT_TRUE(!found || test::is_same({*found, "0.1.0"}, artifact)) << "round " << round;
    }
  }
  EXPECT_GT(loaded, 0u) << "no mutation left an entry readable, so the test shows nothing";
}

void expect_signed_bundles_are_good_or_missing(int rounds, unsigned seed) {
  const KeyPair keys = make_keys();
  expect_bundles_are_good_or_missing(rounds, seed, test::signed_by(test::sample_bundle(kEntries), keys), {keys.signer});
}

TEST(StoreMutationTest, AThousandMutatedEntriesAreGoodOrMissing) { expect_entries_are_good_or_missing(1'000, 1); }
TEST(StoreMutationTest, AThousandMutatedBundlesAreGoodOrMissing) {
  expect_bundles_are_good_or_missing(1'000, 1, test::sample_bundle(kEntries), {});
}
TEST(StoreMutationTest, AThousandMutatedSignedBundlesAreGoodOrMissing) {
  expect_signed_bundles_are_good_or_missing(1'000, 1);
}

TEST(StoreMutationSlowTest, AHundredThousandMutatedEntriesAreGoodOrMissing) {
  expect_entries_are_good_or_missing(100'000, 2);
}
TEST(StoreMutationSlowTest, AHundredThousandMutatedBundlesAreGoodOrMissing) {
  expect_bundles_are_good_or_missing(100'000, 2, test::sample_bundle(kEntries), {});
}
TEST(StoreMutationSlowTest, AHundredThousandMutatedSignedBundlesAreGoodOrMissing) {
  expect_signed_bundles_are_good_or_missing(100'000, 2);
}

TEST(StoreMutationTest, AnEntryCutAtEvery64thByteIsMissing) {
  const test::TemporaryFolder folder;
  const DiskCache cache(folder.path(), {});
  const Artifact artifact = test::sample_artifacts(kEntries).back();
  ASSERT_TRUE(cache.publish(artifact));
  const std::string entry = serialise(artifact);
  const auto path = entry_path(folder.path(), artifact_id(artifact.key, artifact.compiler));
  for (std::size_t length = 0; length < entry.size(); length += 64) {
    test::write_whole(path, entry.substr(0, length));
    EXPECT_EQ(cache.find(request_for(artifact)), std::nullopt) << length;
  }
  test::write_whole(path, entry);
  EXPECT_TRUE(cache.find(request_for(artifact)).has_value());
}

/// The file is cut while the store is open, and before it is opened.
TEST(StoreMutationTest, ABundleCutAtEvery64thByteLosesWhatIsCutAndNothingElse) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.cubit";
  const std::vector<Artifact> artifacts = test::sample_artifacts(kEntries);
  const std::string bytes = test::sample_bundle(kEntries);
  for (std::size_t length = (bytes.size() - 1) / 64 * 64; length > 0; length -= 64) {
    test::write_whole(path, bytes);
    const BundleStore open(path, {}, {}, {});
    std::filesystem::resize_file(path, length);
    EXPECT_FALSE(BundleStore(path, {}, {}, {}).report().readable) << length;
    for (const std::size_t index : {std::size_t{3}, kEntries - 1}) {
      const auto found = open.find(request_for(artifacts[index]));
      ASSERT_TRUE(!found || test::is_same({*found, "0.1.0"}, artifacts[index])) << length;
      ASSERT_FALSE(found && length <= BundleLayout(kEntries).blocks_offset) << length;
    }
  }
}

}  // namespace
}  // namespace cubit::runtime
