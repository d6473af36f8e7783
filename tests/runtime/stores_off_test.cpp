// Proves: each store can be switched off alone, shown by which requests are answered and by the counters of the stores.
// Memory has no switch; the last test shows what releasing a kernel and its engine does instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.hpp"
#include "runtime/bundle/writer.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

/// One kernel in each store, and a compiler that makes each kernel.
class StoresOffTest : public testing::Test {
 protected:
  StoresOffTest() {
    for (const char* name : {"folder", "system", "own"}) EXPECT_TRUE(DiskCache(path(name), {}).publish(artifact(name)));
    test::write_whole(path("file.cubit"), bundle_of("file"));
    all_.cache_dir = path("folder");
    all_.system_caches = {path("system")};
    all_.bundles = {path("file.cubit")};
    all_.bundle_memory = {{"linked", std::as_bytes(std::span(linked_))}};
    all_.stores = {std::make_shared<DiskCache>(path("own"), LogSink(), DiskCacheOptions{.is_system = true})};
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  static Artifact artifact(const char* name) { return test::small_artifact(test::small_source(name)); }
  static std::string bundle_of(const char* name) {
    BundleWriter writer;
    writer.add(pack(artifact(name), "0.1.0"));
    return writer.bytes();
  }

  struct Outcome {
    std::set<std::string> served;  ///< kernels that were in a store
    std::set<std::string> compiled;
    std::map<std::string, std::uint64_t> hits;  ///< by the name of the store
  };
  /// Requests every kernel once from a new engine.
  Outcome outcome(const Settings& settings) {
    Engine engine(settings, {}, compiler_);
    Outcome found;
    for (const char* name : {"folder", "system", "file", "linked", "own"}) {
      const Counters before = engine.counters();
      try {
        engine.get(test::small_source(name));
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.status(), Status::not_cached);
      }
      if (engine.counters().disk_hits > before.disk_hits) found.served.insert(name);
      if (engine.counters().compiles > before.compiles) found.compiled.insert(name);
    }
    for (const StoreReport& report : engine.store_reports()) {
      if (report.hits != 0) found.hits[report.name] = report.hits;
    }
    return found;
  }
  /// The settings without one store serve all other kernels, and never ask the store.
  void expect_off(const Settings& without, const std::string& kernel, const std::string& store) {
    const Outcome found = outcome(without);
    std::set<std::string> others = {"folder", "system", "file", "linked", "own"};
    others.erase(kernel);
    EXPECT_THAT(found.served, UnorderedElementsAreArray(others));
    EXPECT_FALSE(found.hits.contains(store)) << store;
    EXPECT_EQ(found.hits.size(), others.size());
    EXPECT_TRUE(found.compiled.empty());
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<test::CountingCompiler> compiler_ =
      std::make_shared<test::CountingCompiler>(folder_.path() / "count");
  std::string linked_ = bundle_of("linked");
  Settings all_ = {.compile_policy = CompilePolicy::never};
};

TEST_F(StoresOffTest, WithAllStoresEachAnswersForItsKernel) {
  const Outcome found = outcome(all_);
  EXPECT_THAT(found.served, UnorderedElementsAre("folder", "system", "file", "linked", "own"));
  const std::map<std::string, std::uint64_t> expected = {
      {path("folder"), 1}, {path("system"), 1}, {path("file.cubit"), 1}, {"linked", 1}, {path("own"), 1}};
  EXPECT_EQ(found.hits, expected);
}

TEST_F(StoresOffTest, EachStoreIsOffAlone) {
  Settings without = all_;
  without.cache_dir = "";
  expect_off(without, "folder", path("folder"));
  without = all_;
  without.system_caches = {};
  expect_off(without, "system", path("system"));
  without = all_;
  without.bundles = {};
  expect_off(without, "file", path("file.cubit"));
  without = all_;
  without.bundle_memory = {};
  expect_off(without, "linked", "linked");
  without = all_;
  without.stores = {};
  expect_off(without, "own", path("own"));
}

TEST_F(StoresOffTest, TheCompilerIsOffUnderNeverAndOnUnderAllow) {
  Settings none{.compile_policy = CompilePolicy::never};
  EXPECT_TRUE(outcome(none).compiled.empty());
  EXPECT_EQ(compiler_->compiles(), 0u);
  none.compile_policy = CompilePolicy::allow;
  EXPECT_THAT(outcome(none).compiled, UnorderedElementsAre("folder", "system", "file", "linked", "own"));
  EXPECT_EQ(compiler_->compiles(), 5u);
}

/// With no store, nothing outlives the engine: a second engine compiles again, and no file appears.
TEST_F(StoresOffTest, WithEveryStoreOffOnlyTheEnginesMemoryHoldsAKernel) {
  const Settings none;
  const codegen::KernelSource source = test::small_source();
  const auto before = test::files_ending(folder_.path(), "");
  for (std::uint64_t engines = 1; engines <= 2; ++engines) {
    Engine engine(none, {}, compiler_);
    std::weak_ptr<Kernel> watched;
    {
      const auto kernel = engine.get(source);
      EXPECT_EQ(engine.get(source), kernel);
      watched = kernel;
    }
    EXPECT_FALSE(watched.expired()) << "the engine holds its kernels";
    EXPECT_EQ(engine.counters().memory_hits, 1u);
    EXPECT_EQ(compiler_->compiles(), engines);
  }
  EXPECT_EQ(test::files_ending(folder_.path(), ""), before);
}

TEST_F(StoresOffTest, MemoryHoldsAKernelAsLongAsItsEngineOrItsUser) {
  std::shared_ptr<Kernel> held;
  std::weak_ptr<Kernel> released;
  {
    Engine engine(all_, {}, compiler_);
    held = engine.get(test::small_source("file"));
    released = engine.get(test::small_source("linked"));
  }
  EXPECT_TRUE(released.expired());
  EXPECT_EQ(held->artifact().key, request_key(test::small_source("file")));
}

}  // namespace
}  // namespace cubit::runtime
