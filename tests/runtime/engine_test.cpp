// Proves: the engine looks in memory, then on disk, then compiles; each key has one flight; failures are forgotten; no
// lock is held while compiling.
#include "runtime/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <thread>

#include "base/error.hpp"
#include "runtime/bundle/sign.hpp"
#include "runtime/bundle/writer.hpp"
#include "tests/runtime/engine_fixture.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(EngineTest, CompilesOnceThenAnswersFromMemoryThenFromDisk) {
  const auto counting = compiler();
  Engine cold(settings(), {}, counting);
  const auto first = cold.get(test::small_source());
  EXPECT_EQ(cold.get(test::small_source()), first);
  EXPECT_EQ(cold.counters().compiles, 1u);
  EXPECT_EQ(cold.counters().memory_hits, 1u);

  Engine warm(settings(), {}, counting);
  EXPECT_EQ(serialise(warm.get(test::small_source())->artifact()), serialise(first->artifact()));
  EXPECT_EQ(warm.counters().disk_hits, 1u);
  EXPECT_EQ(warm.counters().compiles, 0u);
  EXPECT_EQ(counting->compiles(), 1u);
}

TEST_F(EngineTest, TheArtifactSaysWhatMadeIt) {
  Engine engine(settings(), {}, compiler());
  const Artifact artifact = engine.get(test::small_source())->artifact();
  EXPECT_EQ(artifact.key, request_key(test::small_source()));
  EXPECT_EQ(artifact.compiler.text(), "13.0.88");
  EXPECT_EQ(artifact.descriptor, "small:first");
  EXPECT_EQ(artifact.target, "sm_90a");
  EXPECT_EQ(artifact.entry_point, "small");
  EXPECT_EQ(artifact.resources.registers, 10);
  EXPECT_EQ(artifact.cubin.size(), test::small_source().template_text.size());
}

TEST_F(EngineTest, WithoutADiskCacheEveryEngineCompiles) {
  const auto counting = compiler();
  for (int i = 0; i < 2; ++i) Engine({}, {}, counting).get(test::small_source());
  EXPECT_EQ(counting->compiles(), 2u);
}

TEST_F(EngineTest, AKernelOutlivesItsEngine) {
  std::shared_ptr<Kernel> kernel;
  {
    Engine engine(settings(), {}, compiler());
    kernel = engine.get(test::small_source());
  }
  EXPECT_EQ(kernel->artifact().entry_point, "small");
}

TEST_F(EngineTest, OneCodeWithTwoLaunchShapesIsTwoKernelsAndOneCompile) {
  const auto counting = compiler();
  Engine engine(settings(), {}, counting);
  auto wide = test::small_source();
  wide.launch = {.threads = 256, .dynamic_shared_memory = 1024};
  EXPECT_EQ(engine.get(test::small_source())->launch_facts().threads, 32);
  EXPECT_EQ(engine.get(wide)->launch_facts().threads, 256);
  EXPECT_EQ(engine.get(wide)->launch_facts().dynamic_shared_memory, 1024);
  auto clustered = test::small_source();
  clustered.launch.cluster_blocks = 2;
  EXPECT_EQ(engine.get(clustered)->launch_facts().cluster_blocks, 2);
  auto waiting = test::small_source();
  waiting.launch.waits_for_previous = true;
  EXPECT_TRUE(engine.get(waiting)->launch_facts().waits_for_previous);
  EXPECT_EQ(counting->compiles(), 1u);
}

TEST_F(EngineTest, AFailureIsForgottenAndNothingIsCached) {
  std::atomic<bool> broken = true;
  Engine engine(settings(), lines_.sink(), compiler([&](const codegen::KernelSource&) {
                  if (broken) throw Failure(Status::compile_failed, "small", "the compiler said no");
                }));
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source()); }).status(), Status::compile_failed);
  EXPECT_THAT(engine.disk_cache().list(), IsEmpty());
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source()); }).status(), Status::compile_failed);
  broken = false;
  EXPECT_TRUE(engine.get(test::small_source()));
  EXPECT_EQ(engine.counters().compiles, 3u);
  EXPECT_EQ(engine.counters().failures, 2u);
  EXPECT_EQ(engine.counters().memory_hits, 0u);
}

/// An exception whose text is null, from which no string can be made.
class TextlessException : public std::exception {
 public:
  const char* what() const noexcept override { return nullptr; }
};

TEST_F(EngineTest, AFailureThatCannotBeToldIsForgottenToo) {
  Engine* engine_in_flight = nullptr;
  std::atomic<bool> broken = true;
  Engine engine(settings(), {}, compiler([&](const codegen::KernelSource&) {
                  if (!broken) return;
                  while (engine_in_flight->counters().waits < 1) std::this_thread::yield();
                  throw TextlessException();
                }));
  engine_in_flight = &engine;
  std::atomic<int> unknown_failures = 0;
  std::atomic<int> internal_failures = 0;
  const auto ask = [&] {
    try {
      engine.get(test::small_source());
    } catch (const TextlessException&) {
      ++unknown_failures;
    } catch (const Failure& failure) {
      internal_failures += failure.status() == Status::internal ? 1 : 0;
    }
  };
  {
    const std::jthread one(ask);
    const std::jthread two(ask);
  }
  EXPECT_EQ(unknown_failures, 1) << "who compiled";
  EXPECT_EQ(internal_failures, 1) << "who waited";
  EXPECT_EQ(engine.counters().failures, 2u);
  broken = false;
  EXPECT_TRUE(engine.get(test::small_source()));
}

TEST_F(EngineTest, ThreadsThatAskTogetherShareOneCompile) {
  constexpr int kThreads = 8;
  Engine* engine_in_flight = nullptr;
  // The compile ends only when all other threads are known to wait for it.
  Engine engine(settings(), {}, compiler([&](const codegen::KernelSource&) {
                  while (engine_in_flight->counters().waits < kThreads - 1) std::this_thread::yield();
                }));
  engine_in_flight = &engine;
  std::vector<std::shared_ptr<Kernel>> kernels(kThreads);
  {
    std::vector<std::jthread> threads;
    for (auto& kernel : kernels) threads.emplace_back([&] { kernel = engine.get(test::small_source()); });
  }
  for (const auto& kernel : kernels) EXPECT_EQ(kernel, kernels[0]);
  EXPECT_EQ(engine.counters().compiles, 1u);
  EXPECT_EQ(engine.counters().waits, kThreads - 1u);
}

TEST_F(EngineTest, ThreadsThatWaitShareTheErrorAndTheNextRequestTriesAgain) {
  constexpr int kThreads = 4;
  Engine* engine_in_flight = nullptr;
  std::atomic<bool> broken = true;
  Engine engine(settings(), {}, compiler([&](const codegen::KernelSource&) {
                  if (!broken) return;
                  while (engine_in_flight->counters().waits < kThreads - 1) std::this_thread::yield();
                  throw Failure(Status::compile_failed, "small", "no");
                }));
  engine_in_flight = &engine;
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back(
          [&] { failed += failure_of([&] { engine.get(test::small_source()); }).status() == Status::compile_failed; });
    }
  }
  EXPECT_EQ(failed, kThreads);
  EXPECT_EQ(engine.counters().compiles, 1u);
  EXPECT_EQ(engine.counters().failures, static_cast<std::uint64_t>(kThreads));
  broken = false;
  EXPECT_TRUE(engine.get(test::small_source()));
}

TEST_F(EngineTest, TwoKeysCompileAtTheSameTime) {
  // Each compile waits for the other. The test would never end if a lock were held across a compile.
  std::barrier together(2);
  Engine engine(settings(), {}, compiler([&](const codegen::KernelSource&) { together.arrive_and_wait(); }));
  {
    const std::jthread other([&] { engine.get(test::small_source("other")); });
    engine.get(test::small_source());
  }
  EXPECT_EQ(engine.counters().compiles, 2u);
}

TEST_F(EngineTest, ACachedKernelIsServedWhileAnotherCompiles) {
  std::latch compiling(1);
  std::latch served(1);
  Engine engine(settings(), {}, compiler([&](const codegen::KernelSource& source) {
                  if (source.descriptor != "small:slow") return;
                  compiling.count_down();
                  served.wait();
                }));
  engine.get(test::small_source());
  const std::jthread slow([&] { engine.get(test::small_source("slow")); });
  compiling.wait();
  EXPECT_TRUE(engine.get(test::small_source()));
  served.count_down();
}

TEST_F(EngineTest, AKernelInAStoreIsCachedWhileAnotherThreadStillMakesIt) {
  Engine* asked = nullptr;
  bool before = true;
  bool after = false;
  const auto compiler =
      std::make_shared<test::CountingCompiler>(folder_.path() / "slow", [&](const codegen::KernelSource& source) {
        before = asked->is_cached(source);
        asked->disk_cache().publish(test::small_artifact(source));
        after = asked->is_cached(source);
      });
  Engine engine(settings(), lines_.sink(), compiler);
  asked = &engine;
  engine.get(test::small_source());
  EXPECT_FALSE(before);
  EXPECT_TRUE(after);
}

TEST_F(EngineTest, TheLogSinkMayCallTheEngine) {
  Engine* engine_of_sink = nullptr;
  int lines = 0;
  Engine engine(
      settings(),
      [&](LogLevel, std::string_view) {
        if (engine_of_sink != nullptr && ++lines == 1) engine_of_sink->get(test::small_source("from the sink"));
      },
      compiler());
  engine_of_sink = &engine;
  engine.get(test::small_source());
  EXPECT_GT(lines, 1);
  EXPECT_EQ(engine.counters().compiles, 2u);
}

TEST_F(EngineTest, TheLogSinkMayAskForTheKernelThatItsLineIsAbout) {
  // If a line were emitted inside the flight, or while the key's file lock is held, these threads would wait for
  // themselves forever.
  const auto counting = compiler();
  Engine* first = nullptr;
  Engine second(settings(), {}, counting);
  int lines = 0;
  Engine engine(
      settings(),
      [&](LogLevel, std::string_view line) {
        if (line.find("small:first") == std::string_view::npos || ++lines != 1) return;
        EXPECT_TRUE(first->get(test::small_source()));
        EXPECT_TRUE(second.get(test::small_source()));
      },
      counting);
  first = &engine;
  engine.get(test::small_source());
  EXPECT_GE(lines, 1);
  EXPECT_EQ(engine.counters().memory_hits, 1u);
  EXPECT_EQ(second.counters().disk_hits, 1u);
}

TEST_F(EngineTest, TheLogSinkMayCallTheEngineWhileItsCompilerIsFoundAndAfterAFailure) {
  Settings broken = settings();
  broken.nvrtc_path = FAKE_NVRTC;
  Engine* engine_of_sink = nullptr;
  int lines = 0;
  Engine engine(broken, [&](LogLevel, std::string_view) {
    if (++lines > 1) return;
    EXPECT_NO_THROW(engine_of_sink->compiler());
    EXPECT_EQ(failure_of([&] { engine_of_sink->get(test::small_source()); }).status(), Status::compile_failed);
  });
  engine_of_sink = &engine;
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source()); }).status(), Status::compile_failed);
  EXPECT_EQ(lines, 1) << "the version of the compiler found";
  EXPECT_EQ(engine.counters().failures, 2u);
}

TEST_F(EngineTest, ALogSinkThatThrowsFailsNoRequest) {
  Engine engine(
      settings(), [](LogLevel, std::string_view) { throw std::runtime_error("full"); }, compiler());
  EXPECT_TRUE(engine.get(test::small_source()));
  EXPECT_EQ(engine.counters().failures, 0u);
}

TEST_F(EngineTest, CompilesAreLogged) {
  Engine engine(settings(), lines_.sink(), compiler());
  engine.get(test::small_source());
  EXPECT_THAT(lines_.all(), Contains(AllOf(HasSubstr("small:first"), HasSubstr("sm_90a"), HasSubstr("10 registers"))));
}

TEST_F(EngineTest, AnotherCompilersEntryIsServedUnlessThePolicyIsExact) {
  DiskCache(settings().cache_dir, {}).publish(test::small_artifact(test::small_source(), {12, 8, 93}));
  const auto counting = compiler();
  EXPECT_EQ(Engine(settings(), {}, counting).get(test::small_source())->artifact().compiler.text(), "12.8.93");
  Settings exact = settings();
  exact.compiler_policy = CompilerPolicy::exact;
  EXPECT_EQ(Engine(exact, {}, counting).get(test::small_source())->artifact().compiler.text(), "13.0.88");
  EXPECT_EQ(counting->compiles(), 1u);
}

TEST_F(EngineTest, ExactWithoutACompilerIsAnError) {
  DiskCache(settings().cache_dir, {}).publish(test::small_artifact(test::small_source(), {12, 8, 93}));
  Settings exact = settings();
  exact.compiler_policy = CompilerPolicy::exact;
  exact.nvrtc_path = (folder_.path() / "libnvrtc.so").string();
  Engine engine(exact, {});
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source()); }).status(), Status::compiler_unavailable);
}

TEST_F(EngineTest, ADiskHitLoadsNoCompiler) {
  Engine(settings(), {}, compiler()).get(test::small_source());
  Settings with_compiler = settings();
  with_compiler.nvrtc_path = FAKE_NVRTC;
  test::Lines lines(LogLevel::debug);
  Engine engine(with_compiler, lines.sink());
  engine.get(test::small_source());
  EXPECT_THAT(lines.all(), testing::Not(Contains(HasSubstr("NVRTC"))));
  engine.compiler();
  EXPECT_THAT(lines.all(), Contains(HasSubstr("NVRTC"))) << "or the line above proves nothing";
}

// ---- stores ---------------------------------------------------------------------------------------------------------

TEST_F(EngineTest, SystemFoldersAreAskedAfterTheUsersFolderAndNeverWritten) {
  const std::filesystem::path system = folder_.path() / "system";
  const auto counting = compiler();
  Engine({.cache_dir = system.string()}, {}, counting).get(test::small_source());
  Settings both = settings();
  both.system_caches = {(folder_.path() / "none").string(), system.string()};
  Engine engine(both, lines_.sink(), counting);
  EXPECT_TRUE(engine.is_cached(test::small_source()));
  EXPECT_FALSE(engine.is_cached(test::small_source("other")));
  engine.get(test::small_source());
  engine.get(test::small_source("other"));
  EXPECT_TRUE(engine.is_cached(test::small_source("other")));
  EXPECT_EQ(counting->compiles(), 2u);
  const auto reports = engine.store_reports();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].kind, "folder");
  EXPECT_EQ(reports[0].published, 1u);
  EXPECT_EQ(reports[0].misses, 2u);
  EXPECT_EQ(reports[1].kind, "system folder");
  EXPECT_FALSE(reports[1].readable);
  EXPECT_EQ(reports[2].name, system.string());
  EXPECT_EQ(reports[2].hits, 1u);
  EXPECT_EQ(reports[2].misses, 1u);
  EXPECT_FALSE(reports[2].writable);
  EXPECT_THAT(test::files_ending(system, ".cubit"), testing::SizeIs(1));
  EXPECT_THAT(lines_.all(), Contains(AllOf(HasSubstr("none"), HasSubstr("No such file"))));
}

/// The bytes of a bundle with the kernel of `source`.
std::string bundle_of(const codegen::KernelSource& source) {
  BundleWriter writer;
  writer.add(pack(test::small_artifact(source), "0.1.0"));
  return writer.bytes();
}

TEST_F(EngineTest, BundlesAreAskedAfterTheFoldersFilesFirst) {
  const std::filesystem::path file = folder_.path() / "file.cubit";
  test::write_whole(file, bundle_of(test::small_source("in the file")));
  const std::string memory = bundle_of(test::small_source("in memory"));
  Settings all = settings();
  all.compile_policy = CompilePolicy::never;
  all.bundles = {file.string()};
  all.bundle_memory = {{"linked", std::as_bytes(std::span(memory))}};
  Engine engine(all, lines_.sink());
  EXPECT_TRUE(engine.is_cached(test::small_source("in memory")));
  const auto kernel = engine.get(test::small_source("in memory"));
  Artifact stored = test::small_artifact(test::small_source("in memory"));
  stored.compile_milliseconds = 0;  // a bundle does not hold the time, so that its bytes are the same everywhere
  EXPECT_EQ(serialise(kernel->artifact()), serialise(stored));
  engine.get(test::small_source("in the file"));
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source("nowhere")); }).status(), Status::not_cached);
  EXPECT_EQ(engine.counters().disk_hits, 2u);
  EXPECT_EQ(engine.counters().compiles, 0u);
  const auto reports = engine.store_reports();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].misses, 3u);
  EXPECT_EQ(reports[1].kind, "bundle");
  EXPECT_EQ(reports[1].name, file.string());
  EXPECT_EQ(reports[1].hits, 1u);
  EXPECT_EQ(reports[1].misses, 2u);
  EXPECT_EQ(reports[2].name, "linked");
  EXPECT_EQ(reports[2].hits, 1u);
  EXPECT_EQ(reports[2].misses, 1u);
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(EngineTest, ABundleThatCannotBeUsedIsOneWarningAndTheEngineWorks) {
  Settings with_bundle = settings();
  with_bundle.bundles = {(folder_.path() / "none.cubit").string()};
  test::Lines warnings;
  Engine engine(with_bundle, warnings.sink(), compiler());
  engine.get(test::small_source());
  EXPECT_EQ(engine.counters().compiles, 1u);
  EXPECT_THAT(warnings.all(), testing::ElementsAre(AllOf(HasSubstr("none.cubit"), HasSubstr("No such file"))));
}

// ---- public keys ----------------------------------------------------------------------------------------------------

/// An engine with a public key, a signed bundle of the kernel "signed", and a cache folder with the kernel "cached".
class SignedOnlyTest : public EngineTest {
 protected:
  void SetUp() override {
    Engine(settings(), {}, compiler()).get(test::small_source("cached"));
    const KeyPair keys = make_keys();
    bundle_ = bundle_of(test::small_source("signed"));
    BundleHeader header = Bundle::of_memory("test", std::as_bytes(std::span(bundle_))).header();
    header.signature = sign_root(root_of(bundle_), keys.secret);
    bundle_.replace(0, kBundlePageBytes, header_page(header));
    keyed_ = settings();
    keyed_.system_caches = {keyed_.cache_dir};
    keyed_.bundle_memory = {{"signed", std::as_bytes(std::span(bundle_))}};
    keyed_.public_keys = keys.signer.hex();
  }
  std::size_t stored_entries() const { return test::files_ending(folder_.path(), ".cubit").size(); }

  std::string bundle_;
  Settings keyed_;
};

TEST_F(SignedOnlyTest, BundlesAnswerAndFoldersDoNot) {
  const auto counting = compiler();
  Engine engine(keyed_, lines_.sink(), counting);
  EXPECT_TRUE(engine.get(test::small_source("signed")));
  EXPECT_FALSE(engine.is_cached(test::small_source("cached")));
  const Failure failure = failure_of([&] { engine.get(test::small_source("cached")); });
  EXPECT_EQ(failure.status(), Status::not_cached);
  EXPECT_THAT(failure.what(), AllOf(HasSubstr("no bundle that a given public key signed holds the kernel"),
                                    HasSubstr("cubit bundle sign"), HasSubstr("allow_local_compile")));
  EXPECT_EQ(counting->compiles(), 1u) << "the one of SetUp";
  EXPECT_EQ(engine.store_reports().size(), 2u);
  EXPECT_THAT(lines_.all(), Contains(HasSubstr("cache folders are not used")));
}

TEST_F(SignedOnlyTest, AnotherKeyMeansNoKernel) {
  keyed_.public_keys = make_keys().signer.hex();
  Engine engine(keyed_, {}, compiler());
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source("signed")); }).status(), Status::not_cached);
  keyed_.public_keys = "not a key";
  EXPECT_EQ(failure_of([&] { Engine(keyed_, {}, compiler()); }).status(), Status::invalid_argument);
}

TEST_F(SignedOnlyTest, WhatIsCompiledByPermissionStaysInMemory) {
  keyed_.allow_local_compile = true;
  const auto counting = compiler();
  Engine engine(keyed_, {}, counting);
  const auto kernel = engine.get(test::small_source("fresh"));
  EXPECT_EQ(engine.get(test::small_source("fresh")), kernel);
  EXPECT_EQ(engine.counters().compiles, 1u);
  EXPECT_EQ(engine.counters().memory_hits, 1u);
  EXPECT_EQ(stored_entries(), 1u) << "the one of SetUp";
  keyed_.compile_policy = CompilePolicy::never;
  Engine never(keyed_, {}, counting);
  EXPECT_EQ(failure_of([&] { never.get(test::small_source("fresh")); }).status(), Status::not_cached);
}

// ---- no compiler ----------------------------------------------------------------------------------------------------

TEST_F(EngineTest, WithoutACompilerTheDiskAnswersAndAMissSaysWhatWasTried) {
  Engine(settings(), {}, compiler()).get(test::small_source());
  Settings without = settings();
  without.nvrtc_path = (folder_.path() / "libnvrtc.so").string();
  Engine engine(without, {});
  EXPECT_TRUE(engine.get(test::small_source()));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Failure failure = failure_of([&] { engine.get(test::small_source("other")); });
    EXPECT_EQ(failure.status(), Status::compiler_unavailable);
    EXPECT_THAT(failure.what(), AllOf(HasSubstr(without.nvrtc_path), HasSubstr("CUBIT_NVRTC")));
  }
  EXPECT_EQ(failure_of([&] { engine.compiler(); }).status(), Status::compiler_unavailable);
}

TEST_F(EngineTest, ACompilerThatAppearsLaterIsFound) {
  Settings later = settings();
  later.nvrtc_path = (folder_.path() / "libnvrtc.so").string();
  Engine engine(later, {});
  EXPECT_EQ(failure_of([&] { engine.compiler(); }).status(), Status::compiler_unavailable);
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source()); }).status(), Status::compiler_unavailable);
  std::filesystem::copy_file(FAKE_NVRTC, later.nvrtc_path);
  EXPECT_EQ(engine.compiler().version().major, 12);
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source()); }).status(), Status::compile_failed);
}

}  // namespace
}  // namespace cubit::runtime
