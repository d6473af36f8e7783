// Kills a process before each of its calls to the file system, and proves that the cache is whole afterwards.
#include <csignal>

#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class KillTest : public DiskCacheFaultTest {
 protected:
  /// Runs `body` in processes that are killed before their first call, their second, and so on. Calls `after` when each
  /// is dead. Ends when a process survives, and returns the number of killed ones.
  int kill_at_every_step(const std::function<void()>& before, const std::function<void()>& body,
                         const std::function<void(int)>& after) {
    constexpr int kMost = 1000;
    for (int last = 1; last <= kMost; ++last) {
      before();
      test::Child victim([&]() -> std::string {
        faults.step = [last, count = 0]() mutable {
          if (++count == last) static_cast<void>(raise(SIGKILL));
        };
        body();
        faults.step = nullptr;
        return "survived";
      });
      const std::string said = victim.join();
      if (said == "survived") return last - 1;
      EXPECT_THAT(said, HasSubstr("died of signal 9"));
      after(last);
    }
    ADD_FAILURE() << "no end";
    return kMost;
  }

  /// The next engine gets the kernel, and leaves one good entry and no other file beside it.
  void expect_recovery(int last) {
    for (const CacheEntry& entry : DiskCache(cache_folder(), {}).list()) EXPECT_EQ(entry.damage, "") << "step " << last;
    {
      Engine next = engine(cache_folder());
      EXPECT_EQ(next.get(source_)->artifact().cubin.size(), source_.template_text.size());
      EXPECT_THAT(lines_.all(), IsEmpty()) << "step " << last;
      EXPECT_EQ(next.disk_cache().remove_damaged().size(), 0u);
    }
    EXPECT_THAT(cache_files(), SizeIs(1)) << "step " << last;
    Engine reader = engine(cache_folder());
    reader.get(source_);
    EXPECT_EQ(reader.counters().disk_hits, 1u) << "step " << last;
  }
};

TEST_F(KillTest, AtEveryStepOfACompileThatIsStored) {
  const int steps =
      kill_at_every_step([&] { fs::remove_all(cache_folder()); }, [&] { engine(cache_folder()).get(source_); },
                         [&](int last) { expect_recovery(last); });
  EXPECT_GE(steps, 10) << "folders, lock, staging file, write, fsync, rename, clean-up";
}

TEST_F(KillTest, AtEveryStepOfReplacingADamagedEntry) {
  kill_at_every_step(
      [&] {
        fs::create_directories(entry_of(artifact_).parent_path());
        test::write_whole(entry_of(artifact_), "nonsense");
      },
      [&] { engine(cache_folder()).get(source_); },
      [&](int last) {
        DiskCache(cache_folder(), {}).remove_damaged();
        expect_recovery(last);
      });
}

/// The list of a killed process protects nothing.
TEST_F(KillTest, WhatAKilledProcessHeldIsPruned) {
  test::Child victim([&]() -> std::string {
    Engine own = engine(cache_folder());
    own.get(source_);
    static_cast<void>(raise(SIGKILL));
    return "survived";
  });
  EXPECT_THAT(victim.join(), HasSubstr("died of signal 9"));
  EXPECT_THAT(cache_files(), SizeIs(2)) << "the entry and the list";
  EXPECT_EQ(DiskCache(cache_folder(), {}).prune({.bytes = 1}).removed, 1u);
  EXPECT_THAT(cache_files(), IsEmpty());
}

TEST_F(KillTest, AtEveryStepOfClearing) {
  kill_at_every_step([&] { engine(cache_folder()).get(source_); }, [&] { DiskCache(cache_folder(), {}).clear(); },
                     [&](int last) { expect_recovery(last); });
}

TEST_F(KillTest, AtEveryStepOfPruning) {
  const int steps = kill_at_every_step(
      [&] {
        engine(cache_folder()).get(source_);
        test::write_whole(entry_of(artifact_).replace_extension(".lock"), "");
        test::write_whole(entry_of(artifact_).native() + test::staging_suffix(), "");
      },
      [&] { DiskCache(cache_folder(), {}).prune({.bytes = 1}); },
      [&](int last) {
        EXPECT_LE(DiskCache(cache_folder(), {}).prune({}).entries, 1u) << "step " << last;
        expect_recovery(last);
      });
  EXPECT_GE(steps, 6) << "the lock of pruning, the entry, its lock, the staging file";
}

/// A hit sets the time of an entry that was not used for an hour.
TEST_F(KillTest, AtEveryStepOfAHitThatNotesItsUse) {
  const auto age = [&] {
    engine(cache_folder()).get(source_);
    fs::last_write_time(entry_of(artifact_), fs::file_time_type::clock::now() - std::chrono::hours(30));
  };
  EXPECT_GE(kill_at_every_step(
                age, [&] { engine(cache_folder()).get(source_); }, [&](int last) { expect_recovery(last); }),
            2);
}

/// Kernels with 30 different keys, in up to 30 of the 256 subfolders.
class ThirtyKillsTest : public KillTest {
 protected:
  ThirtyKillsTest() {
    for (int i = 0; i < 30; ++i) {
      const codegen::KernelSource source = test::small_source(std::to_string(i));
      test::Child victim([&]() -> std::string {
        // Some die before the compile, some while they write, and some before the rename.
        if (i % 3 == 0) faults.rename = [](const char*, const char*) { return raise(SIGKILL); };
        if (i % 3 == 1) faults.fsync = [](int) { return raise(SIGKILL); };
        const auto deadly = std::make_shared<test::CountingCompiler>(
            folder_.path() / "count",
            [i](const codegen::KernelSource&) { return i % 3 == 2 ? static_cast<void>(raise(SIGKILL)) : void(); });
        Engine({.cache_dir = cache_folder().string()}, {}, deadly).get(source);
        return "survived";
      });
      EXPECT_THAT(victim.join(), HasSubstr("died of signal 9"));
    }
    EXPECT_EQ(left().staging_files, 20u);
    EXPECT_EQ(left().lock_files, 60u) << "the lock of the machine and the lock of all";
  }
  CacheStats left() const { return DiskCache(cache_folder(), {}).stats(); }
};

TEST_F(ThirtyKillsTest, TheNextStoreOfEachKeyCleansUpBesideIt) {
  test::write_whole(marker(), "");  // another process has just cleaned up
  for (int i = 0; i < 30; ++i) engine(cache_folder()).get(test::small_source(std::to_string(i)));
  EXPECT_EQ(left().staging_files + left().lock_files, 0u);
  EXPECT_THAT(cache_files(), SizeIs(30));
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(ThirtyKillsTest, PruneVerifyAndClearCleanUpEverywhere) {
  const fs::path spare = folder_.path() / "spare";
  fs::copy(cache_folder(), spare, fs::copy_options::recursive);
  const auto expect_clean_after = [&](const std::function<void(const DiskCache&)>& call) {
    fs::remove_all(cache_folder());
    fs::copy(spare, cache_folder(), fs::copy_options::recursive);
    ASSERT_EQ(left().staging_files + left().lock_files, 80u);
    call(DiskCache(cache_folder(), {}));
    EXPECT_THAT(cache_files(), IsEmpty());
  };
  expect_clean_after([](const DiskCache& cache) { cache.prune({}); });
  expect_clean_after([](const DiskCache& cache) { cache.remove_damaged(); });
  expect_clean_after([](const DiskCache& cache) { cache.clear(); });
}

/// The sweep reads the names in all subfolders, so it comes after a compile and not often.
TEST_F(ThirtyKillsTest, ACompileOfAnyKeyCleansUpEverywhereOnceADay) {
  const fs::path spare = folder_.path() / "spare";
  fs::copy(cache_folder() / "v2", spare, fs::copy_options::recursive);
  engine(cache_folder()).get(test::small_source("another"));
  EXPECT_EQ(left().staging_files + left().lock_files, 0u);
  fs::copy(spare, cache_folder() / "v2", fs::copy_options::recursive | fs::copy_options::skip_existing);
  engine(cache_folder()).get(test::small_source("a third"));
  EXPECT_GT(left().staging_files + left().lock_files, 70u) << "the last sweep was not a day ago";
  fs::last_write_time(marker(), fs::file_time_type::clock::now() - std::chrono::hours(25));
  engine(cache_folder()).get(test::small_source("a fourth"));
  EXPECT_EQ(left().staging_files + left().lock_files, 0u);
}

/// An engine with limits prunes after a compile, at most once in ten minutes.
TEST_F(ThirtyKillsTest, WithLimitsACompileOfAnyKeyCleansUpEverywhere) {
  Engine({.cache_dir = cache_folder().string(), .cache_max_days = 30}, lines_.sink(), compiler_)
      .get(test::small_source("another"));
  EXPECT_EQ(left().staging_files + left().lock_files, 0u);
}

TEST_F(DiskCacheFaultTest, ThirtyKillsLeaveNothingAfterTheNextStore) {
  for (int i = 0; i < 30; ++i) {
    test::Child victim([&]() -> std::string {
      faults.rename = [](const char*, const char*) { return raise(SIGKILL); };
      engine(cache_folder()).get(source_);
      return "survived";
    });
    EXPECT_THAT(victim.join(), HasSubstr("died of signal 9"));
  }
  EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), SizeIs(30));
  EXPECT_EQ(DiskCache(cache_folder(), {}).stats().staging_files, 30u);
  test::write_whole(marker(), "");  // another process has just cleaned up
  engine(cache_folder()).get(source_);
  EXPECT_THAT(cache_files(), SizeIs(1));
}

TEST_F(DiskCacheFaultTest, NoEntryTruncatedAtAny64thByteIsServed) {
  artifact_.cubin.resize(4096, std::byte{7});
  const std::string good = serialise(artifact_);
  fs::create_directories(entry_of(artifact_).parent_path());
  for (std::size_t size = 0; size < good.size(); size += 64) {
    test::write_whole(entry_of(artifact_), good.substr(0, size));
    EXPECT_FALSE(DiskCache(cache_folder(), {}).find(test::of_any(artifact_.key))) << size;
    EXPECT_FALSE(fs::exists(entry_of(artifact_))) << size;
  }
}

}  // namespace
}  // namespace cubit::runtime
