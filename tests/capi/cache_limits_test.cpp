// Proves, through the public surface: what cubit_cache_stats counts, what cubit_cache_prune deletes, and which of the
// options and variables limit the cache folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cubit/cubit.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/capi/prepared_cache.hpp"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::hours;
using testing::ElementsAre;

/// A cache folder with three kernels, which were used 1, 50 and 100 hours ago.
class CapiCacheLimits : public testing::Test {
 protected:
  CapiCacheLimits() {
    unset_limits();
    fill();
  }
  CapiCacheLimits(const CapiCacheLimits&) = delete;
  CapiCacheLimits& operator=(const CapiCacheLimits&) = delete;
  ~CapiCacheLimits() override { unset_limits(); }
  static void unset_limits() {
    unsetenv("CUBIT_CACHE_MAX_BYTES");
    unsetenv("CUBIT_CACHE_MAX_DAYS");
  }
  void fill() const {
    fs::remove_all(folder_.path());
    store("merge", hours(1));
    store("kv_append", hours(50));
    store("stream_read", hours(100));
  }
  void store(const char* descriptor, hours used_before) const {
    const std::set<fs::path> before = entries();
    folder_.add(descriptor, "sm_80");
    for (const fs::path& entry : entries()) {
      if (!before.contains(entry)) fs::last_write_time(entry, fs::file_time_type::clock::now() - used_before);
    }
  }
  std::set<fs::path> entries() const {
    std::set<fs::path> found;
    if (!fs::exists(folder_.path())) return found;
    for (const auto& file : fs::recursive_directory_iterator(folder_.path())) {
      if (file.path().extension() == ".cubit") found.insert(file.path());
    }
    return found;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const fs::path& entry : entries()) sum += fs::file_size(entry);
    return sum;
  }
  cubit::EngineOptions options() const {
    return {.cache_dir = folder_.path(), .compile = CUBIT_COMPILE_NEVER, .system_caches = "", .bundles = ""};
  }
  /// The descriptors that are left, in the order of their names.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    const json list = json::parse(cubit::Engine(options()).cache_list());
    for (const json& entry : list["entries"]) names.push_back(entry["descriptor"].get<std::string>());
    std::sort(names.begin(), names.end());
    return names;
  }
  /// What is left after an engine with these options stores the kernel that was used last.
  std::vector<std::string> left_after_store(const cubit::EngineOptions& given) const {
    fill();
    const cubit::Engine engine(given);
    engine.cache_add(engine.get("merge", "sm_80"));
    return left();
  }

  cubit::fake::PreparedCache folder_;
};

TEST_F(CapiCacheLimits, StatsCountEntriesBytesCompilersAndLeftovers) {
  const fs::path entry = *entries().begin();
  std::ofstream(fs::path(entry).replace_extension(".lock")) << "";
  const json stats = json::parse(cubit::Engine(options()).cache_stats());
  EXPECT_EQ(stats["folder"], folder_.path());
  EXPECT_EQ(stats["readable"], true);
  EXPECT_EQ(stats["writable"], true);
  EXPECT_EQ(stats["trouble"], "");
  EXPECT_EQ(stats["entries"], 3);
  EXPECT_EQ(stats["bytes"], bytes());
  EXPECT_EQ(stats["removed"], 0);
  EXPECT_EQ(stats["lock_files"], 1);
  EXPECT_EQ(stats["staging_files"], 0);
  EXPECT_EQ(stats["compilers"], (json{{"12.8.0", 3}}));
  EXPECT_EQ(stats["oldest_use_seconds"].get<std::int64_t>() / 3600, 100);
  EXPECT_EQ(stats["has_locks"], true);
  EXPECT_GT(stats["free_bytes"], 0);
  EXPECT_EQ(entries().size(), 3U) << "nothing is deleted";
}

TEST_F(CapiCacheLimits, PruneDeletesByAgeAndThenByBytes) {
  const cubit::Engine engine(options());
  const std::uint64_t before = bytes();
  const json aged = json::parse(engine.cache_prune(0, 3));
  EXPECT_EQ(aged["removed"], 1);
  EXPECT_EQ(aged["entries"], 2);
  EXPECT_EQ(aged["removed_bytes"], before - bytes());
  EXPECT_THAT(left(), ElementsAre("kv_append", "merge"));
  EXPECT_EQ(json::parse(engine.cache_prune(bytes(), 0))["removed"], 0) << "the entries have as many bytes as allowed";
  EXPECT_EQ(json::parse(engine.cache_prune(bytes() - 1, 0))["removed"], 1);
  EXPECT_THAT(left(), ElementsAre("merge"));
  EXPECT_EQ(json::parse(engine.cache_prune(1, 0))["entries"], 0);
}

/// In a call of cubit_cache_prune, 0 is no limit, whatever the variables and the engine's options say.
TEST_F(CapiCacheLimits, PruneWithoutLimitsDeletesWhatDeadProcessesLeftAlone) {
  setenv("CUBIT_CACHE_MAX_BYTES", "1", 1);
  setenv("CUBIT_CACHE_MAX_DAYS", "1", 1);
  cubit::EngineOptions limited = options();
  limited.cache_max_bytes = 1;
  const fs::path lock = fs::path(*entries().begin()).replace_extension(".lock");
  std::ofstream(lock) << "";
  const json stats = json::parse(cubit::Engine(limited).cache_prune(0, 0));
  EXPECT_EQ(stats["removed"], 0);
  EXPECT_EQ(stats["lock_files"], 0);
  EXPECT_FALSE(fs::exists(lock));
  EXPECT_EQ(entries().size(), 3U);
}

TEST_F(CapiCacheLimits, WithoutLimitsAStoreDeletesNothing) {
  EXPECT_THAT(left_after_store(options()), ElementsAre("kv_append", "merge", "stream_read"));
}

TEST_F(CapiCacheLimits, AnOptionLimitsTheFolder) {
  cubit::EngineOptions most = options();
  most.cache_max_bytes = bytes() - 1;
  EXPECT_THAT(left_after_store(most), ElementsAre("kv_append", "merge"));
  cubit::EngineOptions days = options();
  days.cache_max_days = 3;
  EXPECT_THAT(left_after_store(days), ElementsAre("kv_append", "merge"));
}

TEST_F(CapiCacheLimits, AnOptionOfZeroAsksTheEnvironment) {
  setenv("CUBIT_CACHE_MAX_DAYS", "3", 1);
  EXPECT_THAT(left_after_store(options()), ElementsAre("kv_append", "merge"));
  setenv("CUBIT_CACHE_MAX_DAYS", "0", 1);
  EXPECT_THAT(left_after_store(options()), ElementsAre("kv_append", "merge", "stream_read"));
  setenv("CUBIT_CACHE_MAX_BYTES", std::to_string(bytes() - 1).c_str(), 1);
  EXPECT_THAT(left_after_store(options()), ElementsAre("kv_append", "merge"));
}

TEST_F(CapiCacheLimits, AnOptionOverridesTheEnvironmentAndTheLargestIsNoLimit) {
  setenv("CUBIT_CACHE_MAX_BYTES", "1", 1);
  setenv("CUBIT_CACHE_MAX_DAYS", "1", 1);
  cubit::EngineOptions unlimited = options();
  unlimited.cache_max_bytes = UINT64_MAX;
  unlimited.cache_max_days = UINT32_MAX;
  EXPECT_THAT(left_after_store(unlimited), ElementsAre("kv_append", "merge", "stream_read"));
  cubit::EngineOptions days = unlimited;
  days.cache_max_days = 3;
  EXPECT_THAT(left_after_store(days), ElementsAre("kv_append", "merge"));
}

TEST_F(CapiCacheLimits, AVariableThatIsNoNumberIsRefused) {
  setenv("CUBIT_CACHE_MAX_BYTES", "2T", 1);
  try {
    cubit::Engine engine(options());
    FAIL();
  } catch (const cubit::Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    EXPECT_THAT(error.what(), testing::HasSubstr("CUBIT_CACHE_MAX_BYTES=2T"));
  }
}

}  // namespace
