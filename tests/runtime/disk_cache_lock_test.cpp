// Tests of locks that are not supported, interrupted, inherited or held forever.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <new>

#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

/// Another process may hold the lock of a file that this process did not make.
TEST_F(DiskCacheFaultTest, ALockFileThatAnotherProcessMadeStaysWhateverFlockSays) {
  const DiskCache cache(cache_folder(), {});
  const fs::path entries = cache_folder() / "v2";
  const std::string machine_lock = fmt::format(".machine{}.lock", this_machine());
  const fs::path made_before[] = {entries / "id" / "id.lock", entries / "id" / ("id" + machine_lock)};
  fs::create_directories(entries / "id");
  for (const auto& file : made_before) test::write_whole(file, "");
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS, EIO, EINVAL, EBADF}) {
    faults.flock = [error](int, int) { return failing(error); };
    EXPECT_FALSE(cache.lock("id"));
    for (const auto& file : made_before) EXPECT_TRUE(fs::exists(file)) << std::strerror(error);
  }
  faults.flock = [](int, int) { return failing(EIO); };
  EXPECT_FALSE(cache.lock("ab"));
  EXPECT_TRUE(fs::exists(entries / "ab" / ("ab" + machine_lock))) << "a process may have locked it meanwhile";
}

/// Some network file systems refuse an exclusive lock of a file that is open only for reading.
TEST_F(DiskCacheFaultTest, AFreeLockFileIsOpenedForWriting) {
  faults.flock = [](int file, int operation) {
    const bool can_write = (::fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR;
    return can_write || operation == LOCK_UN ? __real_flock(file, operation) : failing(EBADF);
  };
  const DiskCache cache(cache_folder(), {});
  ASSERT_TRUE(cache.publish(artifact_));
  const fs::path lock = entry_of(artifact_).replace_extension(".lock");
  const fs::path staged = entry_of(artifact_).native() + test::staging_suffix();
  test::write_whole(lock, "");
  test::write_whole(staged, "");
  cache.remove_damaged();
  EXPECT_FALSE(fs::exists(lock));
  EXPECT_FALSE(fs::exists(staged));
}

/// The name of a lock that is always another file than the locked one, as on a file system that reports wrong numbers.
TEST_F(DiskCacheFaultTest, ALockWhoseNameNeverMatchesEndsWithTheWait) {
  faults.after_fstat = [](struct stat* status) { ++status->st_ino; };
  const DiskCache cache(cache_folder(), lines_.sink(), {.lock_wait = std::chrono::milliseconds(30)});
  EXPECT_FALSE(cache.lock("id"));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("compiling without it")));
}

TEST_F(DiskCacheFaultTest, ALinkInPlaceOfALockIsNotFollowed) {
  const DiskCache cache(cache_folder(), {});
  const fs::path target = folder_.path() / "target";
  const fs::path link = cache_folder() / "v2" / "id" / "id.lock";
  fs::create_directories(link.parent_path());
  fs::create_symlink(target, link);
  EXPECT_TRUE(cache.lock("id")) << "the lock of this user's processes";
  EXPECT_FALSE(fs::exists(target));
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(DiskCacheFaultTest, TheReasonWhyAFileCannotBeLockedIsKept) {
  const DiskCache cache(cache_folder(), {});
  EXPECT_TRUE(cache.stats().has_locks);
  faults.flock = [](int, int) { return failing(ENOLCK); };
  EXPECT_EQ(cache.stats().lock_trouble, std::strerror(ENOLCK));
  faults.flock = {};
  faults.open = [](const char* path) { return std::string_view(path).ends_with(".staging") ? failing(ENOSPC) : 0; };
  EXPECT_FALSE(cache.stats().has_locks);
  EXPECT_EQ(cache.stats().lock_trouble, std::strerror(ENOSPC));
}

/// Another process deletes two of four entries while this process prunes to two.
TEST_F(DiskCacheFaultTest, PruneCountsWhatAnotherProcessDeletedMeanwhile) {
  const DiskCache cache(cache_folder(), {});
  std::vector<fs::path> entries;
  for (int i = 0; i < 4; ++i) {
    const Artifact artifact = test::small_artifact(test::small_source(std::to_string(i)));
    ASSERT_TRUE(cache.publish(artifact));
    entries.push_back(entry_of(artifact));
    fs::last_write_time(entries.back(), fs::file_time_type::clock::now() - std::chrono::hours(9 - i));
  }
  const fs::path lock = fs::path(entries[0]).replace_extension(".lock");
  test::write_whole(lock, "");
  faults.open = [&](const char* path) {
    if (path == lock) {
      fs::remove(entries[0]);
      fs::remove(entries[1]);
    }
    return 0;
  };
  const CacheStats stats = cache.prune({.bytes = 2 * fs::file_size(entries[2])});
  EXPECT_EQ(stats.removed, 0u);
  EXPECT_EQ(stats.entries, 2u);
  EXPECT_TRUE(fs::exists(entries[2]));
}

TEST_F(DiskCacheFaultTest, AFailureToPruneIsAWarning) {
  const DiskCache cache(cache_folder(), lines_.sink(), {.limits = {.bytes = 1}});
  ASSERT_TRUE(cache.publish(artifact_));
  faults.open = [](const char* path) -> int {
    if (std::string_view(path).ends_with("prune.lock")) throw std::bad_alloc();
    return 0;
  };
  EXPECT_NO_THROW(cache.prune_if_due());
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("was not pruned")));
}

TEST_F(DiskCacheFaultTest, AnInterruptedLockIsTriedAgain) {
  int interruptions = 0;
  faults.flock = [&](int file, int operation) {
    if (operation == LOCK_UN) return __real_flock(file, operation);
    return ++interruptions < 3 ? failing(EINTR) : __real_flock(file, operation);
  };
  EXPECT_TRUE(DiskCache(cache_folder(), {}).lock("id"));
  EXPECT_EQ(interruptions, 5) << "two lock files are made and locked, and one of the calls is repeated";
}

TEST_F(DiskCacheFaultTest, AForkDuringACompileDoesNotKeepTheLock) {
  const DiskCache cache(cache_folder(), lines_.sink(), {.lock_wait = std::chrono::milliseconds(0)});
  auto held = cache.lock("id");
  ASSERT_TRUE(held);
  EXPECT_FALSE(cache.lock("id"));
  // The child lives until the end of the test and holds a copy of every descriptor.
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
  const DiskCache other(cache_folder(), lines_.sink(), {.lock_wait = std::chrono::milliseconds(30)});
  EXPECT_FALSE(other.lock("id"));
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("id.lock"), HasSubstr("compiling without it"))));
}

/// The line is emitted while the request still waits, and its sink may ask for the same kernel.
TEST_F(DiskCacheFaultTest, WhoWaitsSaysSoBeforeTheWaitEnds) {
  const DiskCache owner(cache_folder(), {});
  auto held = owner.lock(artifact_id(artifact_.key, artifact_.compiler));
  ASSERT_TRUE(held);
  Engine* waiting = nullptr;
  std::atomic<int> early_lines = 0;
  Engine engine(
      {.cache_dir = cache_folder().string(), .lock_wait = std::chrono::minutes(1)},
      [&](LogLevel level, std::string_view line) {
        if (level != LogLevel::warning) return;
        EXPECT_THAT(std::string(line), AllOf(HasSubstr(".lock"), HasSubstr("waiting for at most 60 s")));
        ++early_lines;
        held.reset();
        EXPECT_TRUE(waiting->get(source_));
      },
      compiler_);
  waiting = &engine;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(engine.get(source_));
  EXPECT_EQ(early_lines, 1);
  EXPECT_GE(std::chrono::steady_clock::now() - start, kLockPatience);
  EXPECT_EQ(engine.counters().compiles, 1u);
}

/// A debugger or a job scheduler stops the owner in the middle of its compile, and lets the owner go on later.
TEST_F(DiskCacheFaultTest, AStoppedOwnerDelaysARequestByTheWaitAndFinishesLater) {
  const auto stopping = std::make_shared<test::CountingCompiler>(
      folder_.path() / "count", [](const codegen::KernelSource&) { static_cast<void>(raise(SIGSTOP)); });
  test::Child owner([&]() -> std::string {
    Engine own({.cache_dir = cache_folder().string()}, lines_.sink(), stopping);
    const bool is_whole = own.get(source_)->artifact().cubin.size() == source_.template_text.size();
    return is_whole && lines_.all().empty() ? "" : "the owner's kernel differs, or the owner warned";
  });
  int status = 0;
  ASSERT_EQ(::waitpid(owner.process(), &status, WUNTRACED), owner.process());
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto start = std::chrono::steady_clock::now();
  constexpr std::chrono::milliseconds kWait(2500);
  EXPECT_TRUE(
      Engine({.cache_dir = cache_folder().string(), .lock_wait = kWait}, lines_.sink(), compiler_).get(source_));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, kWait);
  EXPECT_LT(waited, 2 * kWait) << "one wait, although there are two locks";
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("waiting for at most 2.5 s"), HasSubstr("compiling without it")));
  {
    Engine reader = engine(cache_folder());
    reader.get(source_);
    EXPECT_EQ(reader.counters().disk_hits, 1u) << "who compiled without the lock has stored the kernel";
  }
  ASSERT_EQ(::kill(owner.process(), SIGCONT), 0);
  EXPECT_EQ(owner.join(), "");
  EXPECT_EQ(compiler_->compiles(), 2u);
  EXPECT_THAT(cache_files(), SizeIs(1)) << "the entry, and no lock or staging file";
}

/// The clock of the machine is set while a request waits.
TEST_F(DiskCacheFaultTest, AClockThatIsSetDoesNotChangeTheWaitForALock) {
  const DiskCache owner(cache_folder(), {});
  const auto held = owner.lock("id");
  ASSERT_TRUE(held);
  for (const std::chrono::hours error : {std::chrono::hours(100'000), std::chrono::hours(-100'000)}) {
    faults.clock_error = {};
    const DiskCache other(cache_folder(), {},
                          {.lock_wait = std::chrono::milliseconds(60), .lock_patience = std::chrono::milliseconds(20)});
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(other.lock("id", [&] { faults.clock_error = error; }));
    EXPECT_EQ(faults.clock_error, error) << "the clock was set in the middle of the wait";
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST_F(DiskCacheFaultTest, TheWaitForALockIsAnOption) {
  const DiskCache owner(cache_folder(), {});
  const auto held = owner.lock(artifact_id(artifact_.key, artifact_.compiler));
  ASSERT_TRUE(held);
  Engine engine({.cache_dir = cache_folder().string(), .lock_wait = std::chrono::milliseconds(10)}, lines_.sink(),
                compiler_);
  EXPECT_TRUE(engine.get(source_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("for 0.01 s; compiling without it")));
}

/// The owner deletes its lock file, so a process that waits for the deleted file must take the lock of a new one.
TEST_F(DiskCacheFaultTest, TwoProcessesNeverHoldOneLock) {
  constexpr int kProcesses = 8;
  constexpr int kRounds = 50;
  const fs::path inside = folder_.path() / "inside";
  const DiskCache cache(cache_folder(), {});
  std::vector<test::Child> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.emplace_back([&]() -> std::string {
      for (int round = 0; round < kRounds; ++round) {
        const auto lock = cache.lock("ab");
        if (!lock) return "no lock";
        const int file = ::open(inside.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (file < 0) return "two owners";
        ::close(file);
        fs::remove(inside);
      }
      return {};
    });
  }
  for (test::Child& child : children) EXPECT_EQ(child.join(), "");
  EXPECT_THAT(test::files_ending(cache_folder(), ".lock"), IsEmpty());
}

/// As above, and for a while after it was opened, a path shows the attributes of a file that another process has
/// deleted since, as on a client of a network file system.
TEST_F(DiskCacheFaultTest, TwoProcessesNeverHoldOneLockWhereAttributesAreLate) {
  constexpr std::chrono::milliseconds kLate(20);
  struct Known {
    struct stat status {};
    std::chrono::steady_clock::time_point since;
  };
  const fs::path inside = folder_.path() / "inside";
  const DiskCache cache(cache_folder(), {});
  std::vector<test::Child> children;
  for (int i = 0; i < 4; ++i) {
    children.emplace_back([&]() -> std::string {
      std::map<std::string, Known> known;
      faults.lstat = [&](const char* path, struct stat* status) {
        const auto now = std::chrono::steady_clock::now();
        const auto found = known.find(path);
        if (found != known.end() && now - found->second.since < kLate) return *status = found->second.status, 0;
        known.erase(path);
        return __real_lstat(path, status);
      };
      faults.open = [&](const char* path) {
        Known now{.status = {}, .since = std::chrono::steady_clock::now()};
        if (__real_lstat(path, &now.status) == 0) known[path] = now;
        return 0;
      };
      for (int round = 0; round < 30; ++round) {
        const auto lock = cache.lock("ab");
        if (!lock) return "no lock";
        const int file = ::open(inside.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (file < 0) return "two owners";
        ::usleep(3000);
        ::close(file);
        fs::remove(inside);
      }
      return {};
    });
  }
  for (test::Child& child : children) EXPECT_EQ(child.join(), "");
}

TEST_F(DiskCacheFaultTest, ALockOfADeadProcessIsDeletedByTheNextStoreBesideIt) {
  test::Child victim([&]() -> std::string {
    const auto held = DiskCache(cache_folder(), {}).lock(artifact_id(artifact_.key, artifact_.compiler));
    return std::to_string(raise(SIGKILL));
  });
  EXPECT_THAT(victim.join(), HasSubstr("died of signal 9"));
  EXPECT_THAT(test::files_ending(cache_folder(), ".lock"), SizeIs(2));
  engine(cache_folder()).get(source_);
  EXPECT_THAT(test::files_ending(cache_folder(), ".lock"), IsEmpty());
}

TEST_F(DiskCacheFaultTest, ALockKeepsOthersOutUntilItsOwnerIsDone) {
  const DiskCache cache(cache_folder(), {});
  auto held = cache.lock("id");
  ASSERT_TRUE(held);
  const int file = ::open((cache_folder() / "v2" / "id" / "id.lock").c_str(), O_RDWR);
  EXPECT_NE(__real_flock(file, LOCK_EX | LOCK_NB), 0);
  held.reset();
  EXPECT_EQ(__real_flock(file, LOCK_EX | LOCK_NB), 0);
  ::close(file);
}

}  // namespace
}  // namespace cubit::runtime
