// Proves: each key is compiled once across processes, and no process waits for a dead process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"
#include "tests/support/machine_nvrtc.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::SizeIs;

/// Eight threads of one process request one kernel from one engine, and must get the same kernel.
std::string ask_with_eight_threads(Engine& engine, const codegen::KernelSource& source) {
  std::vector<std::shared_ptr<Kernel>> kernels(8);
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (auto& kernel : kernels) {
      threads.emplace_back([&] {
        try {
          kernel = engine.get(source);
        } catch (const Failure&) {
          ++failures;
        }
      });
    }
  }
  if (failures != 0) return "a request failed";
  for (const auto& kernel : kernels) {
    if (kernel != kernels[0]) return "two kernels for one key";
  }
  return {};
}

class EngineProcessTest : public testing::Test {
 protected:
  Settings settings() const {
    Settings settings = Settings::from_environment();  // knows where set-up has put NVRTC
    settings.cache_dir = (folder_.path() / "cache").string();
    return settings;
  }

  std::vector<std::string> ask_from_eight_processes(const std::shared_ptr<const Compiler>& compiler) {
    test::StartingGate gate;
    std::vector<test::Child> children;
    for (int i = 0; i < 8; ++i) {
      children.emplace_back([&]() -> std::string {
        gate.wait_in_child();
        Engine engine(settings(), {}, compiler);
        if (std::string complaint = ask_with_eight_threads(engine, source_); !complaint.empty()) return complaint;
        return engine.counters().compiles == 1 ? "compiled" : "";
      });
    }
    gate.open();
    std::vector<std::string> said;
    for (test::Child& child : children) {
      if (std::string text = child.join(); !text.empty()) said.push_back(text);
    }
    return said;
  }

  /// Starts a process that holds the lock of source_ until it is killed, and waits until the process compiles.
  test::Child start_stuck_owner() {
    const fs::path compiles = folder_.path() / "owner compiles";
    test::Child owner([&]() -> std::string {
      const auto stuck = std::make_shared<test::CountingCompiler>(folder_.path() / "stuck", [&](const auto&) {
        test::write_whole(compiles, "");
        ::pause();
      });
      Engine(settings(), {}, stuck).get(source_);
      return "the stuck compile ended";
    });
    while (!fs::exists(compiles)) std::this_thread::yield();
    return owner;
  }

  test::TemporaryFolder folder_;
  codegen::KernelSource source_ = test::small_source();
};

TEST_F(EngineProcessTest, EightProcessesOfEightThreadsMakeOneCompile) {
  // Long enough that every process asks before the first compile ends. The count does not depend on the time.
  const auto counting = std::make_shared<test::CountingCompiler>(
      folder_.path() / "count",
      [](const codegen::KernelSource&) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  EXPECT_THAT(ask_from_eight_processes(counting), testing::ElementsAre("compiled"));
  EXPECT_EQ(counting->compiles(), 1u);
  EXPECT_THAT(test::files_ending(folder_.path() / "cache", ".cubit"), SizeIs(1));
}

TEST_F(EngineProcessTest, EightProcessesOfEightThreadsMakeOneCompileWithTheMachinesCompiler) {
  // Runs in a child process, because a process with compiler threads must not fork.
  const std::string unavailable = test::Child([]() -> std::string {
                                    std::string why;
                                    return tests::machine_nvrtc(why) ? "" : why;
                                  }).join();
  if (!unavailable.empty()) {
    tests::accept_missing_nvrtc(unavailable);
    GTEST_SKIP() << unavailable;
  }
  EXPECT_THAT(ask_from_eight_processes(nullptr), testing::ElementsAre("compiled"));
}

TEST_F(EngineProcessTest, SixtyFourProcessesOnOneColdKeyMakeOneCompile) {
  const auto counting = std::make_shared<test::CountingCompiler>(
      folder_.path() / "count",
      [](const codegen::KernelSource&) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  test::StartingGate gate;
  std::vector<test::Child> children;
  for (int i = 0; i < 64; ++i) {
    children.emplace_back([&]() -> std::string {
      gate.wait_in_child();
      Engine(settings(), {}, counting).get(source_);
      return {};
    });
  }
  gate.open();
  for (test::Child& child : children) EXPECT_EQ(child.join(), "");
  EXPECT_EQ(counting->compiles(), 1u);
  EXPECT_THAT(test::files_ending(folder_.path() / "cache", ".lock"), testing::IsEmpty());
}

/// The owner of the lock is killed while 63 processes wait: one of them compiles, and none hangs.
TEST_F(EngineProcessTest, AKilledOwnerOf63WaitersIsOneMoreCompile) {
  const auto counting =
      std::make_shared<test::CountingCompiler>(folder_.path() / "count", [](const codegen::KernelSource&) {});
  test::Child owner = start_stuck_owner();
  std::vector<test::Child> waiting;
  for (int i = 0; i < 63; ++i) {
    waiting.emplace_back([&]() -> std::string {
      Engine(settings(), {}, counting).get(source_);
      return {};
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(counting->compiles(), 0u);
  owner.kill();
  for (test::Child& child : waiting) EXPECT_EQ(child.join(), "");
  EXPECT_EQ(counting->compiles(), 1u);
}

TEST_F(EngineProcessTest, WhoWaitsGoesOnWhenTheOwnerIsKilled) {
  const auto counting =
      std::make_shared<test::CountingCompiler>(folder_.path() / "count", [](const codegen::KernelSource&) {});
  test::Child owner = start_stuck_owner();

  std::vector<test::Child> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([&]() -> std::string {
      Engine engine(settings(), {}, counting);
      return ask_with_eight_threads(engine, source_);
    });
  }
  // The processes can only wait while the owner lives. No compile happens, however long this lasts.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(counting->compiles(), 0u);
  owner.kill();
  for (test::Child& child : waiting) EXPECT_EQ(child.join(), "");
  EXPECT_EQ(counting->compiles(), 1u);
}

TEST_F(EngineProcessTest, WhoWaitsForAFailureTriesItself) {
  const fs::path fails = folder_.path() / "fails";
  const auto counting =
      std::make_shared<test::CountingCompiler>(folder_.path() / "count", [&](const codegen::KernelSource&) {
        // The first process that gets here fails.
        if (::mkdir(fails.c_str(), 0700) == 0) throw Failure(Status::compile_failed, "small", "first one fails");
      });
  test::StartingGate gate;
  std::vector<test::Child> children;
  for (int i = 0; i < 4; ++i) {
    children.emplace_back([&]() -> std::string {
      gate.wait_in_child();
      Engine engine(settings(), {}, counting);
      engine.get(source_);
      return {};
    });
  }
  gate.open();
  int failed = 0;
  for (test::Child& child : children) failed += !child.join().empty();
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(counting->compiles(), 2u);
}

}  // namespace
}  // namespace cubit::runtime
