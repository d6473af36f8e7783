// Proves: prune deletes what was used longest ago and nothing that is in use; the time of the last use is kept; limits
// hold without a scan at every request.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache/disk_cache.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::chrono_literals;

class HousekeepingTest : public testing::Test {
 protected:
  Artifact artifact(int number, const CompilerVersion& compiler = {13, 0, 88}) {
    return test::small_artifact(test::small_source(std::to_string(number)), compiler);
  }
  fs::path entry_of(const Artifact& artifact) const {
    return cache_.folder() / "v2" / artifact.key.hex().substr(0, 2) /
           (artifact_id(artifact.key, artifact.compiler) + ".cubit");
  }
  /// Stores entry `number`, last used so long ago.
  fs::path store_used_before(int number, std::chrono::hours ago) {
    EXPECT_TRUE(cache_.publish(artifact(number)));
    fs::last_write_time(entry_of(artifact(number)), fs::file_time_type::clock::now() - ago);
    return entry_of(artifact(number));
  }

  test::TemporaryFolder folder_;
  test::Lines lines_;
  DiskCache cache_{folder_.path() / "cache", lines_.sink()};
};

TEST_F(HousekeepingTest, StatsCountFilesWithoutReadingThem) {
  const fs::path old = store_used_before(1, 50h);
  cache_.publish(artifact(2));
  cache_.publish(artifact(2, {12, 8, 93}));
  test::write_whole(fs::path(old).replace_extension(".lock"), "");
  test::write_whole(old.native() + test::staging_suffix(), "");
  const CacheStats stats = cache_.stats();
  EXPECT_EQ(stats.entries, 3u);
  EXPECT_EQ(stats.bytes, 3 * fs::file_size(old)) << "entries of one size";
  EXPECT_EQ(stats.compilers.at("13.0.88"), 2u);
  EXPECT_EQ(stats.compilers.at("12.8.93"), 1u);
  EXPECT_EQ(stats.lock_files, 1u);
  EXPECT_EQ(stats.staging_files, 1u);
  EXPECT_EQ(std::chrono::duration_cast<std::chrono::hours>(stats.oldest_use), 50h);
  EXPECT_GT(stats.free_bytes, 0u);
  EXPECT_TRUE(stats.has_locks);
}

TEST_F(HousekeepingTest, PruneDeletesTheLeastRecentlyUsedFirst) {
  const fs::path oldest = store_used_before(1, 30h);
  const fs::path older = store_used_before(2, 20h);
  const fs::path newest = store_used_before(3, 10h);
  const std::uint64_t size = fs::file_size(newest);
  EXPECT_EQ(cache_.prune({.bytes = 3 * size}).removed, 0u);
  const CacheStats stats = cache_.prune({.bytes = 2 * size});
  EXPECT_EQ(stats.removed, 1u);
  EXPECT_EQ(stats.removed_bytes, size);
  EXPECT_EQ(stats.entries, 2u);
  EXPECT_FALSE(fs::exists(oldest));
  EXPECT_EQ(cache_.prune({.age = 15h}).removed, 1u);
  EXPECT_FALSE(fs::exists(older));
  EXPECT_TRUE(fs::exists(newest));
}

TEST_F(HousekeepingTest, AHitCountsAsUse) {
  const fs::path first = store_used_before(1, 30h);
  const fs::path second = store_used_before(2, 20h);
  EXPECT_TRUE(cache_.find(test::of_any(artifact(1).key)));
  EXPECT_EQ(cache_.prune({.bytes = fs::file_size(first)}).removed, 1u);
  EXPECT_TRUE(fs::exists(first));
  EXPECT_FALSE(fs::exists(second));
}

TEST_F(HousekeepingTest, AClockThatWasWrongDoesNoHarm) {
  const fs::path future = store_used_before(1, -1000h);
  EXPECT_EQ(cache_.stats().oldest_use, 0s);
  EXPECT_EQ(cache_.prune({.age = 1h}).removed, 0u);
  EXPECT_TRUE(cache_.find(test::of_any(artifact(1).key)));
  EXPECT_LE(fs::last_write_time(future), fs::file_time_type::clock::now()) << "the next use corrects the time";
}

TEST_F(HousekeepingTest, AnEntryWhoseKeyIsBeingCompiledStays) {
  const fs::path entry = store_used_before(1, 30h);
  const auto lock = cache_.lock(artifact_id(artifact(1).key, artifact(1).compiler));
  ASSERT_TRUE(lock);
  EXPECT_EQ(cache_.prune({.age = 1h}).removed, 0u);
  EXPECT_TRUE(fs::exists(entry));
}

TEST_F(HousekeepingTest, ALoadedKernelOutlivesItsEntry) {
  const auto compiler = std::make_shared<test::CountingCompiler>(folder_.path() / "count");
  Engine engine({.cache_dir = cache_.folder().string()}, {}, compiler);
  const auto kernel = engine.get(test::small_source());
  EXPECT_EQ(cache_.clear(), 1u);
  EXPECT_EQ(kernel->artifact().cubin.size(), test::small_source().template_text.size());
  EXPECT_EQ(engine.get(test::small_source()), kernel);
}

TEST_F(HousekeepingTest, PruneDeletesWhatDeadProcessesLeft) {
  const fs::path entry = store_used_before(1, 0h);
  const fs::path lock = fs::path(entry).replace_extension(".lock");
  test::write_whole(lock, "");
  EXPECT_EQ(cache_.prune({}).removed, 0u);
  EXPECT_FALSE(fs::exists(lock));
  EXPECT_TRUE(fs::exists(entry));
}

TEST_F(HousekeepingTest, AStorePrunesToTheLimitsFromTimeToTime) {
  const std::uint64_t size = fs::file_size(store_used_before(1, 30h));
  const DiskCache limited(cache_.folder(), {}, {.limits = {.bytes = size}});
  limited.publish(artifact(2));
  limited.prune_if_due();
  EXPECT_EQ(cache_.stats().entries, 1u);
  EXPECT_TRUE(fs::exists(entry_of(artifact(2))));
  limited.publish(artifact(3));
  limited.prune_if_due();
  EXPECT_EQ(cache_.stats().entries, 2u) << "the folder was pruned a moment ago";
  fs::last_write_time(cache_.folder() / "v2" / "pruned", fs::file_time_type::clock::now() - 1h);
  limited.publish(artifact(4));
  limited.prune_if_due();
  EXPECT_EQ(cache_.stats().entries, 1u);
}

TEST_F(HousekeepingTest, ACompilePrunesToTheLimits) {
  const std::uint64_t size = fs::file_size(store_used_before(1, 30h));
  store_used_before(2, 20h);
  // The compiled entry also holds digests of its inputs, so it is larger than the two others, but not twice as large.
  Engine engine({.cache_dir = cache_.folder().string(), .cache_max_bytes = 2 * size}, {},
                std::make_shared<test::CountingCompiler>(folder_.path() / "count"));
  engine.get(test::small_source());
  EXPECT_EQ(cache_.stats().entries, 1u);
}

TEST_F(HousekeepingTest, WhileOneProcessPrunesAnotherDeletesNothing) {
  const fs::path entry = store_used_before(1, 30h);
  const int lock = ::open((cache_.folder() / "v2" / "prune.lock").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  const CacheStats busy = cache_.prune({.age = 1h});
  EXPECT_EQ(busy.removed, 0u);
  EXPECT_EQ(busy.entries, 1u);
  ::close(lock);
  EXPECT_EQ(cache_.prune({.age = 1h}).removed, 1u);
  EXPECT_THAT(test::files_ending(cache_.folder(), ""), IsEmpty());
}

TEST_F(HousekeepingTest, TenThousandEntriesAreCountedPrunedAndFound) {
  constexpr int kEntries = 10'000;
  const std::string content = serialise(artifact(0));
  ASSERT_TRUE(cache_.publish(artifact(0)));
  const std::string name = entry_of(artifact(0)).filename().native();
  for (int i = 0; i < kEntries; ++i) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%04x", i);
    fs::path file =
        cache_.folder() / "v2" / std::string(digits + 2) / (std::string(digits + 2) + digits + name.substr(6));
    fs::create_directories(file.parent_path());
    test::write_whole(file, content);
  }
  EXPECT_EQ(cache_.stats().entries, kEntries + 1u);
  EXPECT_TRUE(cache_.find(test::of_any(artifact(0).key)));
  EXPECT_FALSE(cache_.find(test::of_any(artifact(1).key)));
  EXPECT_EQ(cache_.prune({.bytes = 10 * content.size()}).entries, 10u);
  cache_.clear();
  EXPECT_THAT(test::files_ending(cache_.folder(), ""), IsEmpty());
}

}  // namespace
}  // namespace cubit::runtime
