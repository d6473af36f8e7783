// Proves: a stored entry is found by its key and compiler and by nothing else, and list, verify and clear report the
// truth.
#include "runtime/cache/disk_cache.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DiskCacheTest : public testing::Test {
 protected:
  fs::path entry_of(const Artifact& artifact) const {
    return cache_.folder() / "v2" / artifact.key.hex().substr(0, 2) /
           (artifact_id(artifact.key, artifact.compiler) + ".cubit");
  }

  test::TemporaryFolder folder_;
  test::Lines lines_;
  DiskCache cache_{folder_.path() / "a" / "b", lines_.sink()};
  Artifact first_ = test::small_artifact(test::small_source("first"));
  Artifact second_ = test::small_artifact(test::small_source("second"));
};

TEST_F(DiskCacheTest, MakesItsFolderAndTheMissingOnesAboveForTheOwnerOnly) {
  EXPECT_TRUE(cache_.readable());
  EXPECT_TRUE(cache_.writable());
  EXPECT_EQ(cache_.trouble(), "");
  for (const fs::path& made : {cache_.folder(), cache_.folder().parent_path()}) {
    struct stat status {};
    ASSERT_EQ(stat(made.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u) << made;
  }
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(DiskCacheTest, AFolderThatExistsKeepsItsMode) {
  const fs::path shared = folder_.path() / "shared";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms(0755));
  const DiskCache cache(shared, {});
  EXPECT_EQ(fs::status(shared).permissions(), fs::perms(0755));
}

TEST_F(DiskCacheTest, StoresAndLoads) {
  EXPECT_FALSE(cache_.find(test::of_compiler(first_.key, first_.compiler)));
  EXPECT_TRUE(cache_.publish(first_));
  const auto loaded = cache_.find(test::of_compiler(first_.key, first_.compiler));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(serialise(*loaded), serialise(first_));
  EXPECT_THAT(test::files_ending(cache_.folder(), ""), ElementsAre(entry_of(first_)));
}

TEST_F(DiskCacheTest, AnotherBuildOfTheCompilerIsAnotherEntry) {
  EXPECT_TRUE(cache_.publish(first_));
  EXPECT_FALSE(cache_.find(test::of_compiler(first_.key, {13, 0, 87})));
  EXPECT_FALSE(cache_.find(test::of_compiler(first_.key, {13, 1, 88})));
  EXPECT_FALSE(cache_.find(test::of_compiler(first_.key, {12, 0, 88})));
  EXPECT_FALSE(cache_.find(test::of_compiler(second_.key, first_.compiler)));
}

TEST_F(DiskCacheTest, LoadAnyTakesTheNewestCompilerThatTheDriverAccepts) {
  EXPECT_FALSE(cache_.find(test::of_any(first_.key)));
  for (const CompilerVersion version : {CompilerVersion{12, 8, 93}, {13, 0, 9}, {13, 0, 88}, {12, 10, 1}}) {
    cache_.publish(test::small_artifact(test::small_source("first"), version));
  }
  EXPECT_EQ(cache_.find(test::of_any(first_.key))->compiler.text(), "13.0.88");
  EXPECT_EQ(cache_.find(test::of_any(first_.key, 13))->compiler.text(), "13.0.88");
  EXPECT_EQ(cache_.find(test::of_any(first_.key, 12))->compiler.text(), "12.10.1");
  EXPECT_FALSE(cache_.find(test::of_any(first_.key, 11)));
  EXPECT_FALSE(cache_.find(test::of_any(second_.key)));
}

TEST_F(DiskCacheTest, LoadAnyPassesOverADamagedEntry) {
  cache_.publish(first_);
  const Artifact older = test::small_artifact(test::small_source("first"), {12, 8, 93});
  cache_.publish(older);
  test::write_whole(entry_of(first_), "nonsense");
  EXPECT_EQ(cache_.find(test::of_any(first_.key))->compiler, older.compiler);
  EXPECT_EQ(cache_.damaged(), 1u);
}

TEST_F(DiskCacheTest, ListTellsGoodFromDamaged) {
  cache_.publish(first_);
  cache_.publish(second_);
  test::write_whole(entry_of(second_), "nonsense");
  std::size_t good = 0;
  for (const CacheEntry& entry : cache_.list()) {
    if (entry.artifact) {
      ++good;
      EXPECT_EQ(entry.id, artifact_id(first_.key, first_.compiler));
      EXPECT_EQ(entry.bytes, serialise(first_).size());
      EXPECT_EQ(entry.damage, "");
    } else {
      EXPECT_EQ(entry.id, artifact_id(second_.key, second_.compiler));
      EXPECT_THAT(entry.damage, HasSubstr("too short"));
    }
  }
  EXPECT_EQ(good, 1u);
  EXPECT_THAT(cache_.list(), SizeIs(2)) << "listing deletes nothing";
}

TEST_F(DiskCacheTest, RemoveDamagedDeletesDamageAndNothingElse) {
  cache_.publish(first_);
  cache_.publish(second_);
  test::write_whole(entry_of(second_), "nonsense");
  test::write_whole(cache_.folder() / "notes.txt", "not ours");
  EXPECT_THAT(cache_.remove_damaged(), SizeIs(1));
  EXPECT_THAT(cache_.remove_damaged(), IsEmpty());
  EXPECT_TRUE(cache_.find(test::of_compiler(first_.key, first_.compiler)));
  EXPECT_TRUE(fs::exists(cache_.folder() / "notes.txt"));
}

TEST_F(DiskCacheTest, ClearDeletesEntriesAndLocksThatNobodyHolds) {
  cache_.publish(first_);
  cache_.publish(second_);
  const auto held = cache_.lock(artifact_id(first_.key, first_.compiler));
  const fs::path left = entry_of(second_).replace_extension(".lock");
  test::write_whole(left, "");
  EXPECT_EQ(cache_.clear(), 2u);
  EXPECT_THAT(cache_.list(), IsEmpty());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(entry_of(first_).replace_extension(".lock")));
}

TEST_F(DiskCacheTest, ALockLeavesNoFile) {
  { const auto lock = cache_.lock("ab"); }
  EXPECT_THAT(test::files_ending(cache_.folder(), ""), IsEmpty());
}

TEST_F(DiskCacheTest, ClearDeletesStagingFilesThatNobodyWrites) {
  const fs::path left = cache_.folder() / "v2" / (entry_of(first_).filename().native() + test::staging_suffix());
  const fs::path written = cache_.folder() / "v2" / (entry_of(first_).filename().native() + test::staging_suffix(1));
  test::write_whole(left, "x");
  test::write_whole(written, "x");
  const int file = ::open(written.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(file, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(cache_.clear(), 0u);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(written));
  ::close(file);
}

TEST_F(DiskCacheTest, AnEntryIsReadableForEverybodyWhoMayEnterTheFolder) {
  for (const mode_t mask : {0022, 0077, 0}) {
    const mode_t before = ::umask(mask);
    cache_.publish(first_);
    ::umask(before);
    EXPECT_EQ(fs::status(entry_of(first_)).permissions(), fs::perms(0644)) << mask;
  }
}

TEST_F(DiskCacheTest, FoldersBelowHaveTheModeOfTheCacheFolder) {
  const fs::path shared = folder_.path() / "shared";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms(0755));
  const mode_t before = ::umask(0077);
  DiskCache(shared, {}).publish(first_);
  ::umask(before);
  EXPECT_EQ(fs::status(shared / "v2").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::status(shared / "v2" / first_.key.hex().substr(0, 2)).permissions(), fs::perms(0755));
}

TEST_F(DiskCacheTest, AnEntryInAnotherPlaceIsAMissAndListedAsDamage) {
  test::write_whole(cache_.folder() / "v2" / entry_of(first_).filename(), serialise(first_));
  EXPECT_FALSE(cache_.find(test::of_any(first_.key)));
  ASSERT_THAT(cache_.list(), SizeIs(1));
  EXPECT_THAT(cache_.list().front().damage, HasSubstr("does not look for it"));
}

/// Housekeeping deletes only files with names of the cache, and enters no links.
TEST_F(DiskCacheTest, FilesOfStrangersStay) {
  cache_.publish(first_);
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  std::vector<fs::path> strangers;
  for (const fs::path& folder : {elsewhere, cache_.folder() / "v2", entry_of(first_).parent_path()}) {
    for (const char* name : {"poetry.lock", "notes.cubit", "upload.staging", "a.cubit.1.2.staging"}) {
      strangers.push_back(folder / name);
    }
  }
  strangers.push_back(elsewhere / entry_of(second_).filename());
  strangers.push_back(fs::path(strangers.back()).replace_extension(".lock"));
  for (const fs::path& file : strangers) test::write_whole(file, "");
  fs::create_directory_symlink(elsewhere, cache_.folder() / "v0");
  fs::create_directory_symlink(elsewhere, cache_.folder() / "v2" / "ff");
  EXPECT_THAT(cache_.list(), SizeIs(1));
  EXPECT_THAT(cache_.remove_damaged(), IsEmpty());
  EXPECT_EQ(cache_.prune({.age = std::chrono::hours(1)}).entries, 1u);
  EXPECT_EQ(cache_.clear(), 1u);
  for (const fs::path& file : strangers) EXPECT_TRUE(fs::exists(file)) << file;
}

TEST_F(DiskCacheTest, ALinkInPlaceOfAnEntryIsNotFollowed) {
  cache_.publish(first_);
  const fs::path target = folder_.path() / "target";
  fs::rename(entry_of(first_), target);
  fs::create_symlink(target, entry_of(first_));
  EXPECT_FALSE(cache_.find(test::of_any(first_.key)));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("not a regular file")));
  EXPECT_TRUE(fs::exists(target));
}

TEST_F(DiskCacheTest, ADescriptorOfAnyLengthIsStoredCut) {
  first_.descriptor.assign(std::size_t{3} << 20, '\x01');
  EXPECT_TRUE(cache_.publish(first_));
  const auto loaded = cache_.find(test::of_compiler(first_.key, first_.compiler));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->descriptor, first_.descriptor.substr(0, loaded->descriptor.size()));
  EXPECT_GT(loaded->descriptor.size(), 1000u);
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(DiskCacheTest, WhatCannotBeStoredIsAWarning) {
  Artifact too_large = first_;
  too_large.cubin.resize(std::size_t{256} << 20);
  EXPECT_FALSE(cache_.publish(too_large));
  first_.entry_point.assign(std::size_t{3} << 20, 'k');
  EXPECT_FALSE(cache_.publish(first_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("it has 268"), HasSubstr("was not stored")));
  EXPECT_THAT(cache_.list(), IsEmpty());
}

TEST_F(DiskCacheTest, NoFolderMeansNoCacheAndNoWarning) {
  const DiskCache none({}, lines_.sink());
  EXPECT_FALSE(none.readable());
  EXPECT_FALSE(none.writable());
  EXPECT_FALSE(none.publish(first_));
  EXPECT_FALSE(none.find(test::of_compiler(first_.key, first_.compiler)));
  EXPECT_FALSE(none.find(test::of_any(first_.key)));
  EXPECT_FALSE(none.lock("some"));
  EXPECT_THAT(none.list(), IsEmpty());
  EXPECT_THAT(none.remove_damaged(), IsEmpty());
  EXPECT_EQ(none.clear(), 0u);
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(DiskCacheTest, ARelativeFolderStaysWhereItWas) {
  fs::current_path(folder_.path());
  const DiskCache cache("relative", {});
  fs::current_path("/");
  EXPECT_TRUE(cache.publish(first_));
  EXPECT_TRUE(fs::exists(folder_.path() / "relative" / "v2"));
}

/// A process of an older cubit may be using its entries.
TEST_F(DiskCacheTest, AnEntryOfAnOlderLayoutIsAMissAndOnlyClearDeletesIt) {
  for (const char* layout : {"v0", "v1"}) {
    const fs::path old = cache_.folder() / layout / entry_of(first_).filename();
    fs::create_directory(old.parent_path());
    test::write_whole(old, serialise(first_));
    EXPECT_FALSE(cache_.find(test::of_compiler(first_.key, first_.compiler)));
    EXPECT_FALSE(cache_.find(test::of_any(first_.key)));
    EXPECT_THAT(cache_.list(), IsEmpty());
    EXPECT_THAT(cache_.remove_damaged(), IsEmpty());
    EXPECT_EQ(cache_.stats().entries, 1u);
    EXPECT_TRUE(fs::exists(old));
    EXPECT_EQ(cache_.clear(), 1u);
    EXPECT_FALSE(fs::exists(old));
  }
}

TEST_F(DiskCacheTest, ANewerCubitsFilesAreLeftAlone) {
  const fs::path newer = cache_.folder() / "v3" / entry_of(first_).filename();
  fs::create_directory(newer.parent_path());
  test::write_whole(newer, "from the future");
  EXPECT_THAT(cache_.list(), IsEmpty());
  EXPECT_THAT(cache_.remove_damaged(), IsEmpty());
  EXPECT_EQ(cache_.clear(), 0u);
  EXPECT_TRUE(fs::exists(newer));
}

}  // namespace
}  // namespace cubit::runtime
