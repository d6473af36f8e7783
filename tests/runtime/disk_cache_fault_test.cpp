// One injected fault per promise of the disk cache. The linker wraps the calls that a file system can fail (see
// CMakeLists.txt); where the kernel allows it, the real thing is done too: a full tmpfs, a read-only mount.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>

#include "runtime/disk_cache.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

namespace {

/// What stands in for a system call; empty calls the real one.
struct Faults {
  std::function<int(const char* from, const char* to)> rename;
  std::function<int(int file, int operation)> flock;
  std::function<int(const char* path, mode_t mode)> mkdir;
  std::function<int(int file)> fsync;
  std::function<int(const char* path, int mode)> access;
  std::function<int(const char* path)> open;  ///< -1 with errno set refuses; anything else lets the real one open
  std::function<ssize_t(int file, void* bytes, std::size_t size)> read;
  std::function<void(struct stat* status)> after_fstat;
};
Faults faults;

int failing(int error) {
  errno = error;
  return -1;
}

}  // namespace

// The linker's --wrap chooses these names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
int __real_rename(const char* from, const char* to);
int __real_flock(int file, int operation);
int __real_mkdir(const char* path, mode_t mode);
int __real_fsync(int file);
int __real_access(const char* path, int mode);
int __wrap_rename(const char* from, const char* to);
int __wrap_flock(int file, int operation);
int __wrap_mkdir(const char* path, mode_t mode);
int __wrap_fsync(int file);
int __wrap_access(const char* path, int mode);
int __real_open(const char* path, int flags, ...);
ssize_t __real_read(int file, void* bytes, std::size_t size);
int __real_fstat(int file, struct stat* status);
int __wrap_open(const char* path, int flags, mode_t mode);
ssize_t __wrap_read(int file, void* bytes, std::size_t size);
int __wrap_fstat(int file, struct stat* status);

int __wrap_rename(const char* from, const char* to) {
  return faults.rename ? faults.rename(from, to) : __real_rename(from, to);
}
int __wrap_flock(int file, int operation) {
  return faults.flock ? faults.flock(file, operation) : __real_flock(file, operation);
}
int __wrap_mkdir(const char* path, mode_t mode) {
  return faults.mkdir ? faults.mkdir(path, mode) : __real_mkdir(path, mode);
}
int __wrap_fsync(int file) { return faults.fsync ? faults.fsync(file) : __real_fsync(file); }
int __wrap_access(const char* path, int mode) {
  return faults.access ? faults.access(path, mode) : __real_access(path, mode);
}
// The mode is garbage where a caller gives none, and then nobody looks at it.
int __wrap_open(const char* path, int flags, mode_t mode) {
  return faults.open && faults.open(path) < 0 ? -1 : __real_open(path, flags, mode);
}
ssize_t __wrap_read(int file, void* bytes, std::size_t size) {
  return faults.read ? faults.read(file, bytes, size) : __real_read(file, bytes, size);
}
int __wrap_fstat(int file, struct stat* status) {
  const int result = __real_fstat(file, status);
  if (faults.after_fstat) faults.after_fstat(status);
  return result;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Skips the test if the child was refused its experiment; fails it if the child complains.
void expect_well(test::Child child) {
  const std::string said = child.join();
  if (said.starts_with(test::kNotAllowedHere)) GTEST_SKIP() << said;
  EXPECT_EQ(said, "");
}

class DiskCacheFaultTest : public testing::Test {
 protected:
  ~DiskCacheFaultTest() override { faults = {}; }

  fs::path cache_folder() const { return folder_.path() / "cache"; }
  fs::path entry_of(const Artifact& artifact) const {
    return cache_folder() / "v1" / (artifact_id(artifact.key, artifact.compiler) + ".cubit");
  }
  Engine engine(const fs::path& folder) { return Engine({.cache_dir = folder.string()}, lines_.sink(), compiler_); }

  test::TemporaryFolder folder_;
  test::Lines lines_;
  std::shared_ptr<test::CountingCompiler> compiler_ =
      std::make_shared<test::CountingCompiler>(folder_.path() / "count");
  codegen::KernelSource source_ = test::small_source();
  Artifact artifact_ = test::small_artifact(source_);
};

// ---- damage ---------------------------------------------------------------------------------------------------------

/// An engine that meets a damaged entry deletes it, says so once, compiles, and the next engine finds a good entry.
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
  // Its lengths add up: eight gigabytes, of which the file system holds one page.
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
  EXPECT_FALSE(DiskCache(cache_folder(), {}).load(artifact_.key, artifact_.compiler));
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
  ASSERT_EQ(mkfifo(entry_of(test::small_artifact(other)).c_str(), 0600), 0);
  EXPECT_TRUE(on_folder.get(other));
  EXPECT_EQ(compiler_->compiles(), 2u);
}

// ---- a good entry at a bad time ------------------------------------------------------------------------------------

/// An entry that cannot be read now is a miss and one warning; it stays, and serves when the trouble is over.
class UnreadableTest : public DiskCacheFaultTest {
 protected:
  void expect_a_miss_and_the_entry_stays(int error) {
    test::Lines lines;
    const DiskCache cache(cache_folder(), lines.sink());
    EXPECT_FALSE(cache.load(artifact_.key, artifact_.compiler));
    EXPECT_FALSE(cache.load_any(artifact_.key));
    const auto warning = AllOf(HasSubstr("cannot be read"), HasSubstr(std::strerror(error)));
    EXPECT_THAT(lines.all(), ElementsAre(warning, warning));
    EXPECT_EQ(cache.damaged(), 0u);

    const std::vector<CacheEntry> listed = cache.remove_damaged();
    ASSERT_THAT(listed, SizeIs(1));
    EXPECT_TRUE(listed[0].unreadable);
    EXPECT_FALSE(listed[0].removed);
    EXPECT_THAT(listed[0].damage, HasSubstr(std::strerror(error)));

    faults = {};
    EXPECT_TRUE(cache.load(artifact_.key, artifact_.compiler)) << "after " << std::strerror(error);
    EXPECT_THAT(cache.remove_damaged(), IsEmpty());
  }
};

TEST_F(UnreadableTest, WhateverRefusesToOpenIt) {
  DiskCache(cache_folder(), {}).store(artifact_);
  for (const int error : {EMFILE, ENFILE, ENOMEM, EIO, EACCES, EINVAL}) {
    faults.open = [error](const char* path) { return std::string_view(path).ends_with(".cubit") ? failing(error) : 0; };
    expect_a_miss_and_the_entry_stays(error);
  }
}

TEST_F(UnreadableTest, ADiskThatFailsInTheMiddle) {
  DiskCache(cache_folder(), {}).store(artifact_);
  faults.read = [](int, void*, std::size_t) { return failing(EIO); };
  expect_a_miss_and_the_entry_stays(EIO);
}

TEST_F(DiskCacheFaultTest, RemoveDamagedSaysWhatCouldNotBeDeleted) {
  const DiskCache cache(cache_folder(), {});
  fs::create_directories(entry_of(artifact_) / "a folder with something in it");
  const auto other = test::small_artifact(test::small_source("other"));
  test::write_whole(entry_of(other), "nonsense");
  for (const CacheEntry& entry : cache.remove_damaged()) {
    const bool folder = entry.id == artifact_id(artifact_.key, artifact_.compiler);
    EXPECT_EQ(entry.removed, !folder) << entry.id;
    EXPECT_THAT(entry.damage, HasSubstr(folder ? "no regular file" : "too short"));
  }
  EXPECT_TRUE(fs::exists(entry_of(artifact_) / "a folder with something in it"));
  EXPECT_FALSE(fs::exists(entry_of(other)));
  EXPECT_EQ(cache.clear(), 0u);
}

// ---- folders that cannot be used ------------------------------------------------------------------------------------

TEST_F(DiskCacheFaultTest, AFolderThatIsAFileMeansNoCacheAndOneWarning) {
  test::write_whole(cache_folder(), "a file");
  Engine on_file = engine(cache_folder());
  EXPECT_TRUE(on_file.get(source_));
  EXPECT_TRUE(on_file.get(test::small_source("other")));
  EXPECT_FALSE(on_file.disk_cache().readable());
  EXPECT_FALSE(on_file.disk_cache().writable());
  EXPECT_THAT(on_file.disk_cache().trouble(), HasSubstr("not a folder"));
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr(cache_folder().string()), HasSubstr("not a folder"))));
  EXPECT_EQ(test::read_whole(cache_folder()), "a file");
}

TEST_F(DiskCacheFaultTest, AFolderBelowAFileMeansNoCacheAndOneWarning) {
  test::write_whole(cache_folder(), "a file");
  Engine below = engine(cache_folder() / "deeper" / "still");
  EXPECT_TRUE(below.get(source_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("not a folder")));
}

TEST_F(DiskCacheFaultTest, AFolderThatCannotBeMadeMeansNoCacheAndOneWarning) {
  faults.mkdir = [](const char*, mode_t) { return failing(EACCES); };
  Engine refused = engine(cache_folder());
  EXPECT_TRUE(refused.get(source_));
  EXPECT_TRUE(refused.get(test::small_source("other")));
  EXPECT_THAT(refused.disk_cache().trouble(), HasSubstr(std::strerror(EACCES)));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("cannot be created")));
}

TEST_F(DiskCacheFaultTest, AnUnwritableFolderIsReadAndOneWarningGiven) {
  engine(cache_folder()).get(source_);
  faults.access = [](const char* path, int mode) {
    return (mode & W_OK) != 0 ? failing(EACCES) : __real_access(path, mode);
  };
  Engine reader = engine(cache_folder());
  EXPECT_TRUE(reader.disk_cache().readable());
  EXPECT_FALSE(reader.disk_cache().writable());
  reader.get(source_);
  reader.get(test::small_source("other"));
  EXPECT_EQ(reader.counters().disk_hits, 1u);
  EXPECT_EQ(reader.counters().compiles, 1u);
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("cannot be written")));
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), SizeIs(1));
}

TEST_F(DiskCacheFaultTest, AReallyReadOnlyMountIsReadAndOneWarningGiven) {
  engine(cache_folder()).get(source_);
  test::write_whole(entry_of(test::small_artifact(test::small_source("damaged"))), "nonsense");
  expect_well(test::Child([&]() -> std::string {
    if (std::string refused = test::own_mounts(); !refused.empty()) return refused;
    const std::string path = cache_folder().string();
    if (mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        mount(nullptr, path.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return std::string(test::kNotAllowedHere) + "mount: " + std::strerror(errno);
    }
    Engine reader = engine(cache_folder());
    reader.get(source_);
    if (reader.counters().disk_hits != 1) return "the entry was not read";
    reader.get(test::small_source("other"));
    if (reader.counters().compiles != 1) return "a miss was not compiled";
    if (lines_.all().size() != 1) return "not one warning";
    reader.get(test::small_source("damaged"));
    if (reader.counters().compiles != 2) return "a damaged entry was not replaced by a compile";
    return reader.counters().damaged_entries == 0 ? "" : "claims to have deleted on a read-only mount";
  }));
}

TEST_F(DiskCacheFaultTest, AFolderDeletedUnderARunningProcessIsMadeAgain) {
  Engine running = engine(cache_folder());
  running.get(source_);
  fs::remove_all(cache_folder());
  EXPECT_TRUE(running.get(test::small_source("other")));
  EXPECT_EQ(running.counters().compiles, 2u);
  EXPECT_THAT(lines_.all(), IsEmpty());
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), SizeIs(1));
}

TEST_F(DiskCacheFaultTest, AFolderReplacedByAFileUnderARunningProcessIsOneWarningPerStore) {
  Engine running = engine(cache_folder());
  fs::remove_all(cache_folder());
  test::write_whole(cache_folder(), "a file");
  EXPECT_TRUE(running.get(source_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("was not stored")));
}

// ---- stores that fail -----------------------------------------------------------------------------------------------

/// The kernel is made all the same, one warning says why it was not stored, and no trace of the attempt stays.
class StoreFailureTest : public DiskCacheFaultTest {
 protected:
  void expect_kernel_and_warning(const std::string& reason) {
    Engine unlucky = engine(cache_folder());
    EXPECT_TRUE(unlucky.get(source_));
    EXPECT_TRUE(unlucky.get(source_));
    EXPECT_EQ(unlucky.counters().compiles, 1u);
    EXPECT_EQ(unlucky.counters().memory_hits, 1u);
    EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("was not stored"), HasSubstr(reason))));
    EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), IsEmpty());
    EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), IsEmpty());
  }
};

TEST_F(StoreFailureTest, FsyncFails) {
  faults.fsync = [](int) { return failing(EIO); };
  expect_kernel_and_warning(std::strerror(EIO));
}

TEST_F(StoreFailureTest, RenameFails) {
  faults.rename = [](const char*, const char*) { return failing(EACCES); };
  expect_kernel_and_warning(std::strerror(EACCES));
}

TEST_F(StoreFailureTest, FileSizeLimitInTheMiddleOfAWrite) {
  expect_well(test::Child([&]() -> std::string {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string(test::kNotAllowedHere) + "setrlimit";
    expect_kernel_and_warning(std::strerror(EFBIG));
    return HasFailure() ? "see above" : "";
  }));
}

TEST_F(StoreFailureTest, ReallyFullDisk) {
  expect_well(test::Child([&]() -> std::string {
    if (std::string refused = test::own_mounts(); !refused.empty()) return refused;
    fs::create_directory(cache_folder());
    if (mount("none", cache_folder().c_str(), "tmpfs", 0, "size=16k,mode=0700") != 0) {
      return std::string(test::kNotAllowedHere) + "mount: " + std::strerror(errno);
    }
    // All pages but the first of the entry's: the write itself, not the open, must hit the end of the disk.
    fs::create_directories(cache_folder() / "v1");
    const int file = ::open((cache_folder() / "filler").c_str(), O_WRONLY | O_CREAT, 0600);
    const std::string page(4096, 'x');
    while (::write(file, page.data(), page.size()) > 0) continue;
    ::close(file);
    fs::resize_file(cache_folder() / "filler", fs::file_size(cache_folder() / "filler") - 4096);
    source_.template_text += std::string(8192, ' ');
    expect_kernel_and_warning(std::strerror(ENOSPC));
    return HasFailure() ? "see above" : "";
  }));
}

TEST_F(DiskCacheFaultTest, AStagedFileIsNeverTakenForAnEntry) {
  // What another process sees between stage and rename.
  bool looked = false;
  faults.rename = [&](const char* from, const char* to) {
    looked = true;
    const DiskCache reader(cache_folder(), {});
    EXPECT_FALSE(reader.load(artifact_.key, artifact_.compiler));
    EXPECT_FALSE(reader.load_any(artifact_.key));
    EXPECT_THAT(reader.list(), IsEmpty());
    EXPECT_THAT(reader.remove_damaged(), IsEmpty());
    EXPECT_TRUE(fs::exists(from)) << "a file that is being written was cleaned away";
    EXPECT_EQ(fs::path(from).parent_path(), fs::path(to).parent_path());
    return __real_rename(from, to);
  };
  EXPECT_TRUE(DiskCache(cache_folder(), lines_.sink()).store(artifact_));
  EXPECT_TRUE(looked);
}

TEST_F(DiskCacheFaultTest, KilledBetweenWriteAndRenameLeavesNoEntryAndCleansUpLater) {
  test::Child victim([&]() -> std::string {
    faults.rename = [](const char*, const char*) { return raise(SIGKILL); };
    engine(cache_folder()).get(source_);
    return "survived";
  });
  EXPECT_THAT(victim.join(), HasSubstr("died of signal 9"));
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), IsEmpty());
  EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), SizeIs(1));

  Engine next = engine(cache_folder());
  next.get(source_);
  EXPECT_EQ(compiler_->compiles(), 2u);
  EXPECT_THAT(lines_.all(), IsEmpty());
  EXPECT_THAT(next.disk_cache().remove_damaged(), IsEmpty());
  EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), IsEmpty());
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), SizeIs(1));
}

// ---- locks ----------------------------------------------------------------------------------------------------------

TEST_F(DiskCacheFaultTest, WhereLocksAreNotSupportedTheCompileGoesAhead) {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    faults.flock = [error](int, int) { return failing(error); };
    const fs::path folder = folder_.path() / std::to_string(error);
    Engine unlocked = engine(folder);
    unlocked.get(source_);
    EXPECT_EQ(unlocked.counters().compiles, 1u);
    EXPECT_THAT(test::files_ending(folder, ".cubit"), SizeIs(1));
  }
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(DiskCacheFaultTest, AnInterruptedLockIsTriedAgain) {
  int interruptions = 0;
  faults.flock = [&](int file, int operation) {
    if (operation == LOCK_UN) return __real_flock(file, operation);
    return ++interruptions < 3 ? failing(EINTR) : __real_flock(file, operation);
  };
  EXPECT_TRUE(DiskCache(cache_folder(), {}).lock("id"));
  EXPECT_EQ(interruptions, 3);
}

TEST_F(DiskCacheFaultTest, AForkDuringACompileDoesNotKeepTheLock) {
  const DiskCache cache(cache_folder(), lines_.sink(), std::chrono::milliseconds(0));
  auto held = cache.lock("id");
  ASSERT_TRUE(held);
  EXPECT_FALSE(cache.lock("id"));
  // Lives until the end of the test, with a copy of every descriptor.
  test::Child child([]() -> std::string {
    ::pause();
    return {};
  });
  held.reset();
  EXPECT_TRUE(cache.lock("id"));
}

TEST_F(DiskCacheFaultTest, WhoHoldsALockForEverIsWaitedForOnlySoLong) {
  const DiskCache owner(cache_folder(), {});
  const auto held = owner.lock("id");
  ASSERT_TRUE(held);
  const DiskCache other(cache_folder(), lines_.sink(), std::chrono::milliseconds(30));
  EXPECT_FALSE(other.lock("id"));
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("id.lock"), HasSubstr("compiling without it"))));
}

TEST_F(DiskCacheFaultTest, ALockKeepsOthersOutUntilItsOwnerIsDone) {
  const DiskCache cache(cache_folder(), {});
  auto held = cache.lock("id");
  ASSERT_TRUE(held);
  const int file = ::open((cache_folder() / "v1" / "id.lock").c_str(), O_RDWR);
  EXPECT_NE(__real_flock(file, LOCK_EX | LOCK_NB), 0);
  held.reset();
  EXPECT_EQ(__real_flock(file, LOCK_EX | LOCK_NB), 0);
  ::close(file);
}

}  // namespace
}  // namespace cubit::runtime
