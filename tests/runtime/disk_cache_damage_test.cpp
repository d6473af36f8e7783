// Tests of damaged entries, and of good entries that cannot be read at the moment: one injected fault per guarantee of
// the disk cache.
#include <sys/stat.h>

#include <cstring>
#include <limits>
#include <utility>

#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// An engine that meets a damaged entry deletes it, logs one warning and compiles; the next engine finds a good entry.
class DamageTest : public DiskCacheFaultTest {
 protected:
  void expect_rebuilt(const std::string& reason) {
    Engine cold = engine(cache_folder());
    EXPECT_EQ(cold.get(source_)->artifact().target, "sm_90a");
    EXPECT_EQ(cold.counters().compiles, 1u);
    EXPECT_EQ(cold.counters().damaged_entries, 1u);
    EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("was deleted"), HasSubstr(reason))));
    Engine warm = engine(cache_folder());
    warm.get(source_);
    EXPECT_EQ(warm.counters().disk_hits, 1u);
  }
  void store(const std::string& content) {
    fs::create_directories(entry_of(artifact_).parent_path());
    test::write_whole(entry_of(artifact_), content);
  }
};

TEST_F(DamageTest, Truncated) {
  const std::string good = serialise(artifact_);
  store(good.substr(0, good.size() - 1));
  expect_rebuilt("lengths");
}

/// The process that compiles the key stores a good entry after another process has read the damaged entry and before it
/// removes the entry.
class ReplacedTest : public DamageTest {
 protected:
  void SetUp() override {
    const std::string good = serialise(artifact_);
    store(good.substr(0, good.size() - 1));
    faults.read = [this, good, is_replaced = false](int file, void* bytes, std::size_t size) mutable {
      const ssize_t count = __real_read(file, bytes, size);
      if (std::exchange(is_replaced, true)) return count;
      fs::remove(entry_of(artifact_));
      store(good);
      return count;
    };
  }
};

TEST_F(ReplacedTest, AGoodEntryIsTakenAndStays) {
  Engine other = engine(cache_folder());
  other.get(source_);
  EXPECT_EQ(other.counters().disk_hits, 1u);
  EXPECT_EQ(other.counters().compiles, 0u);
  EXPECT_EQ(other.counters().damaged_entries, 0u);
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(ReplacedTest, AGoodEntryIsNotCleanedUp) {
  EXPECT_THAT(DiskCache(cache_folder(), {}).remove_damaged(), IsEmpty());
  EXPECT_TRUE(fs::exists(entry_of(artifact_)));
}

TEST_F(DamageTest, WhileItsKeyIsCompiledItStays) {
  store("");
  const DiskCache compiling(cache_folder(), {});
  const auto lock = compiling.lock(artifact_id(artifact_.key, artifact_.compiler));
  ASSERT_TRUE(lock.has_value());
  const auto damaged = DiskCache(cache_folder(), {}).remove_damaged();
  ASSERT_THAT(damaged, SizeIs(1));
  EXPECT_FALSE(damaged[0].removed);
  EXPECT_TRUE(fs::exists(entry_of(artifact_)));
}

TEST_F(DamageTest, Empty) {
  store("");
  expect_rebuilt("too short");
}

TEST_F(DamageTest, Flipped) {
  std::string bytes = serialise(artifact_);
  bytes[bytes.size() - 33] ^= 4;
  store(bytes);
  expect_rebuilt("hash");
}

TEST_F(DamageTest, SwappedWithAnotherKeysEntry) {
  store(serialise(test::small_artifact(test::small_source("another"))));
  expect_rebuilt("belongs to");
}

TEST_F(DamageTest, SwappedWithAnotherCompilersEntry) {
  store(serialise(test::small_artifact(source_, {12, 8, 93})));
  expect_rebuilt("belongs to");
}

TEST_F(DamageTest, OldSchema) {
  std::string bytes = serialise(artifact_);
  bytes[8] = 0;
  store(bytes);
  expect_rebuilt("schema version 0");
}

TEST_F(DamageTest, LargerThanAnyEntry) {
  // The lengths in the file agree: eight gigabytes, of which the file system stores one page.
  constexpr std::uint64_t kSize = std::uint64_t{8} << 30;
  std::string front = serialise(artifact_).substr(0, kEntryPrefixBytes);
  for (int i = 0; i < 4; ++i) front[12 + i] = 0;
  for (int i = 0; i < 8; ++i) front[16 + i] = static_cast<char>((kSize - kEntryPrefixBytes - 32) >> (8 * i) & 0xff);
  store(front);
  fs::resize_file(entry_of(artifact_), kSize);
  const std::vector<CacheEntry> listed = DiskCache(cache_folder(), {}).list();
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_THAT(listed[0].damage, HasSubstr("too long"));
  EXPECT_EQ(listed[0].bytes, kSize);
  expect_rebuilt("too long");
}

TEST_F(DamageTest, LargerThanAnyFile) {
  store(serialise(artifact_));
  faults.after_fstat = [](struct stat* status) { status->st_size = std::numeric_limits<off_t>::max(); };
  EXPECT_THAT(DiskCache(cache_folder(), {}).remove_damaged(), SizeIs(1));
}

TEST_F(DamageTest, LongerThanItAnnouncesIsNotReadToItsEnd) {
  store(serialise(artifact_));
  fs::resize_file(entry_of(artifact_), 100 << 20);
  std::size_t most = 0;
  faults.read = [&](int file, void* bytes, std::size_t size) {
    most = std::max(most, size);
    return __real_read(file, bytes, size);
  };
  EXPECT_FALSE(DiskCache(cache_folder(), {}).find(test::of_compiler(artifact_.key, artifact_.compiler)));
  EXPECT_EQ(most, kEntryPrefixBytes);
}

TEST_F(DamageTest, AGoodHashOverAnotherTarget) {
  Artifact crafted = artifact_;
  crafted.target = "sm_80";
  store(serialise(crafted));
  expect_rebuilt("its content is small for sm_80, and its key stands for small for sm_90a");
}

TEST_F(DamageTest, AGoodHashOverAnotherEntryPoint) {
  Artifact crafted = artifact_;
  crafted.entry_point = "other";
  store(serialise(crafted));
  expect_rebuilt("its content is other for sm_90a");
}

TEST_F(DamageTest, AGoodHashOverNoCubin) {
  Artifact crafted = artifact_;
  crafted.cubin.clear();
  store(serialise(crafted));
  expect_rebuilt("no cubin");
}

TEST_F(DiskCacheFaultTest, AnEntryThatIsAFolderOrAFifoIsNeitherFatalNorAWait) {
  fs::create_directories(entry_of(artifact_));
  Engine on_folder = engine(cache_folder());
  EXPECT_TRUE(on_folder.get(source_));
  const auto other = test::small_source("other");
  const fs::path fifo = entry_of(test::small_artifact(other));
  fs::create_directories(fifo.parent_path());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(on_folder.get(other));
  EXPECT_EQ(compiler_->compiles(), 2u);
}

// ---- a good entry at a bad time ------------------------------------------------------------------------------------

/// An entry that cannot be read now is a miss and one warning. The entry stays, and is used when the trouble is over.
class UnreadableTest : public DiskCacheFaultTest {
 protected:
  void expect_a_miss_and_the_entry_stays(int error) {
    test::Lines lines;
    const DiskCache cache(cache_folder(), lines.sink());
    EXPECT_FALSE(cache.find(test::of_compiler(artifact_.key, artifact_.compiler)));
    EXPECT_FALSE(cache.find(test::of_any(artifact_.key)));
    const auto warning = AllOf(HasSubstr("cannot be read"), HasSubstr(std::strerror(error)));
    EXPECT_THAT(lines.all(), ElementsAre(warning, warning));
    EXPECT_EQ(cache.damaged(), 0u);

    const std::vector<CacheEntry> listed = cache.remove_damaged();
    ASSERT_THAT(listed, SizeIs(1));
    EXPECT_TRUE(listed[0].unreadable);
    EXPECT_FALSE(listed[0].removed);
    EXPECT_THAT(listed[0].damage, HasSubstr(std::strerror(error)));

    faults = {};
    EXPECT_TRUE(cache.find(test::of_compiler(artifact_.key, artifact_.compiler))) << "after " << std::strerror(error);
    EXPECT_THAT(cache.remove_damaged(), IsEmpty());
  }
};

TEST_F(UnreadableTest, WhateverRefusesToOpenIt) {
  DiskCache(cache_folder(), {}).publish(artifact_);
  for (const int error : {EMFILE, ENFILE, ENOMEM, EIO, EACCES, EINVAL}) {
    faults.open = [error](const char* path) { return std::string_view(path).ends_with(".cubit") ? failing(error) : 0; };
    expect_a_miss_and_the_entry_stays(error);
  }
}

TEST_F(UnreadableTest, ADiskThatFailsInTheMiddle) {
  DiskCache(cache_folder(), {}).publish(artifact_);
  faults.read = [](int, void*, std::size_t) { return failing(EIO); };
  expect_a_miss_and_the_entry_stays(EIO);
}

TEST_F(DiskCacheFaultTest, RemoveDamagedSaysWhatCouldNotBeDeleted) {
  const DiskCache cache(cache_folder(), {});
  fs::create_directories(entry_of(artifact_) / "a folder with something in it");
  const auto other = test::small_artifact(test::small_source("other"));
  fs::create_directories(entry_of(other).parent_path());
  test::write_whole(entry_of(other), "nonsense");
  for (const CacheEntry& entry : cache.remove_damaged()) {
    const bool folder = entry.id == artifact_id(artifact_.key, artifact_.compiler);
    EXPECT_EQ(entry.removed, !folder) << entry.id;
    EXPECT_THAT(entry.damage, HasSubstr(folder ? "not a regular file" : "too short"));
  }
  EXPECT_TRUE(fs::exists(entry_of(artifact_) / "a folder with something in it"));
  EXPECT_FALSE(fs::exists(entry_of(other)));
  EXPECT_EQ(cache.clear(), 0u);
}

}  // namespace
}  // namespace cubit::runtime
