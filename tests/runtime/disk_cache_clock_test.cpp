// Tests of a clock that is wrong or is set: no kernel is lost that is in use, and every request is answered.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr hours kTenYears(24 * 3650);

class ClockTest : public DiskCacheFaultTest {
 protected:
  /// Stores the kernel while the clock of pruning is wrong by `error`, and the file's time with it.
  void store_at(hours error) {
    engine(cache_folder()).get(source_);
    fs::last_write_time(entry_of(artifact_), fs::file_time_type::clock::now() + error);
  }
  std::uint64_t hits() {
    Engine reader = engine(cache_folder());
    reader.get(source_);
    return reader.counters().disk_hits;
  }
};

TEST_F(ClockTest, AnEntryIsServedWhateverTheClockSays) {
  for (const hours of_entry : {-kTenYears, hours(0), kTenYears}) {
    fs::remove_all(cache_folder());
    store_at(of_entry);
    for (const hours now : {hours(0), kTenYears, -kTenYears, hours(0)}) {
      faults.clock_error = now;
      EXPECT_EQ(hits(), 1u) << of_entry.count() << " " << now.count();
    }
  }
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(ClockTest, AClockThatIsBehindPrunesNothing) {
  store_at(hours(0));
  faults.clock_error = -kTenYears;
  EXPECT_EQ(DiskCache(cache_folder(), {}).prune({.age = hours(1)}).removed, 0u);
  EXPECT_EQ(hits(), 1u);
}

/// A clock that is ahead makes every entry look unused. The next use of an entry then compiles it again, and once the
/// clock is right, the entry is as good as any.
TEST_F(ClockTest, AClockThatIsAheadCostsCompilesAndNothingElse) {
  store_at(hours(0));
  faults.clock_error = kTenYears;
  EXPECT_EQ(DiskCache(cache_folder(), {}).prune({.age = hours(24)}).removed, 1u);
  EXPECT_EQ(hits(), 0u);
  EXPECT_EQ(compiler_->compiles(), 2u);
  faults.clock_error = {};
  EXPECT_EQ(DiskCache(cache_folder(), {}).prune({.age = hours(24)}).removed, 0u);
  EXPECT_EQ(hits(), 1u);
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(ClockTest, WhatALivingProcessWritesOrLocksStaysWithAClockThatIsAhead) {
  const DiskCache cache(cache_folder(), {});
  const auto held = cache.lock(artifact_id(artifact_.key, artifact_.compiler));
  ASSERT_TRUE(held);
  test::Child writer([&]() -> std::string {
    faults.fsync = [](int file) {
      static_cast<void>(raise(SIGSTOP));
      return __real_fsync(file);
    };
    return DiskCache(cache_folder(), {}).publish(artifact_) ? "" : "not stored";
  });
  int status = 0;
  ASSERT_EQ(::waitpid(writer.process(), &status, WUNTRACED), writer.process());
  ASSERT_THAT(test::files_ending(cache_folder(), ".staging"), SizeIs(1));
  faults.clock_error = kTenYears;
  cache.prune({.age = hours(1)});
  cache.remove_damaged();
  cache.clear();
  EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), SizeIs(1));
  EXPECT_THAT(test::files_ending(cache_folder(), ".lock"), SizeIs(2));
  ASSERT_EQ(::kill(writer.process(), SIGCONT), 0);
  EXPECT_EQ(writer.join(), "");
  EXPECT_TRUE(cache.find(test::of_any(artifact_.key)));
}

/// A machine whose clock is an hour ahead takes the staging file of another machine for abandoned. The other machine's
/// request still has its kernel, and says what happened.
TEST_F(ClockTest, AStagingFileThatAnotherMachineDeletesIsOneWarning) {
  faults.rename = [](const char* from, const char* to) {
    static_cast<void>(__real_unlink(from));
    return __real_rename(from, to);
  };
  Engine own = engine(cache_folder());
  EXPECT_TRUE(own.get(source_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("was not stored")));
  faults.rename = nullptr;
  EXPECT_EQ(hits(), 0u) << "the next process compiles and stores";
  EXPECT_EQ(hits(), 1u);
}

/// The time of the marker says when a process pruned last. A marker from the future holds nobody up for years.
TEST_F(ClockTest, AMarkerFromTheFutureDoesNotStopPruning) {
  const DiskCache limited(cache_folder(), {}, {.limits = {.bytes = 1}});
  ASSERT_TRUE(limited.publish(artifact_));
  test::write_whole(cache_folder() / "v2" / "pruned", "");
  fs::last_write_time(cache_folder() / "v2" / "pruned", fs::file_time_type::clock::now() + kTenYears);
  limited.prune_if_due();
  EXPECT_EQ(limited.stats().entries, 0u);
}

/// Eight processes hold three kernels each. Pruning leaves the entries. Another process then deletes all entries, and
/// the eight keep their code.
TEST_F(ClockTest, PruneLeavesWhatProcessesHoldAndTheirKernelsOutliveAnyDeletion) {
  constexpr int kProcesses = 8;
  constexpr int kKernels = 3;
  const auto source_of = [](int number) { return test::small_source(std::to_string(number)); };
  test::StartingGate gate;
  std::vector<test::Child> holders;
  for (int process = 0; process < kProcesses; ++process) {
    holders.emplace_back([&, process]() -> std::string {
      Engine own = engine(cache_folder());
      std::vector<std::shared_ptr<Kernel>> held;
      held.reserve(kKernels);
      for (int i = 0; i < kKernels; ++i) held.push_back(own.get(source_of(i)));
      test::write_whole(folder_.path() / ("holds " + std::to_string(process)), "");
      gate.wait_in_child();
      for (int i = 0; i < kKernels; ++i) {
        const codegen::KernelSource source = source_of(i);
        const std::vector<std::byte>& code = held[static_cast<std::size_t>(i)]->artifact().cubin;
        if (std::memcmp(code.data(), source.template_text.data(), code.size()) != 0) return "the code changed";
        if (own.get(source) != held[static_cast<std::size_t>(i)]) return "another kernel";
      }
      return own.counters().memory_hits == kKernels ? "" : "a held kernel was looked up";
    });
  }
  const auto holding = [&] {
    int count = 0;
    for (int i = 0; i < kProcesses; ++i) count += fs::exists(folder_.path() / ("holds " + std::to_string(i)));
    return count;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (holding() < kProcesses && std::chrono::steady_clock::now() < end) ::usleep(1000);
  EXPECT_EQ(compiler_->compiles(), static_cast<std::size_t>(kKernels));
  const DiskCache cache(cache_folder(), {});
  cache.publish(test::small_artifact(test::small_source("nobody's")));
  EXPECT_EQ(cache.prune({.bytes = 1}).removed, 1u) << "the entry that nobody holds";
  EXPECT_EQ(cache.stats().entries, static_cast<std::uint64_t>(kKernels));
  EXPECT_EQ(cache.clear(), static_cast<std::size_t>(kKernels));
  fs::remove_all(cache_folder());
  gate.open();
  for (test::Child& child : holders) EXPECT_EQ(child.join(), "");
  EXPECT_EQ(compiler_->compiles(), static_cast<std::size_t>(kKernels));
}

}  // namespace
}  // namespace cubit::runtime
