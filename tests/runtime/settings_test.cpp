// Proves: each variable is read as settings.hpp documents, and a wrong value gives one clear error.
#include "runtime/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SettingsTest : public testing::Test {
 protected:
  // gtest_discover_tests runs every test in its own process, so nothing needs to be restored.
  void SetUp() override {
    for (const char* name : {"CUBIT_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "CUBIT_NVRTC", "CUBIT_NVRTC_DIR", "CUDA_HOME",
                             "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUBIT_COMPILE", "CUBIT_COMPILER",
                             "CUBIT_SYSTEM_CACHES", "CUBIT_BUNDLES", "CUBIT_PUBLIC_KEYS", "CUBIT_CACHE_TRUST",
                             "CUBIT_LOCK_WAIT", "CUBIT_CACHE_MAX_BYTES", "CUBIT_CACHE_MAX_DAYS"}) {
      unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(SettingsTest, NothingSetMeansNoDiskCacheAndCompilationAllowed) {
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.cache_dir, "");
  EXPECT_EQ(settings.nvrtc_path, "");
  EXPECT_THAT(settings.nvrtc_folders, IsEmpty());
  EXPECT_EQ(settings.compile_policy, CompilePolicy::allow);
}

TEST_F(SettingsTest, CacheFolderComesFromCubitThenXdgThenHome) {
  set("HOME", "/home/someone");
  EXPECT_EQ(Settings::from_environment().cache_dir, "/home/someone/.cache/cubit");
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(Settings::from_environment().cache_dir, "/xdg/cubit");
  set("CUBIT_CACHE_DIR", "/chosen");
  EXPECT_EQ(Settings::from_environment().cache_dir, "/chosen");
}

TEST_F(SettingsTest, RelativeXdgFolderIsIgnoredAsItsSpecificationDemands) {
  set("HOME", "/home/someone");
  set("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(Settings::from_environment().cache_dir, "/home/someone/.cache/cubit");
}

TEST_F(SettingsTest, EmptyCacheFolderMeansNone) {
  set("HOME", "/home/someone");
  set("CUBIT_CACHE_DIR", "");
  EXPECT_EQ(Settings::from_environment().cache_dir, "");
}

TEST_F(SettingsTest, AFolderThatNoVariableNamesIsUnknown) {
  EXPECT_TRUE(Settings::from_environment().is_cache_dir_unknown);
  set("CUBIT_CACHE_DIR", "");
  EXPECT_FALSE(Settings::from_environment().is_cache_dir_unknown);
  unsetenv("CUBIT_CACHE_DIR");
  set("HOME", "/home/someone");
  EXPECT_FALSE(Settings::from_environment().is_cache_dir_unknown);
}

TEST_F(SettingsTest, StoresTrustAndTheWaitForLocks) {
  EXPECT_EQ(Settings::from_environment().lock_wait, std::chrono::minutes(2));
  set("CUBIT_SYSTEM_CACHES", "/a::/b c:");
  set("CUBIT_BUNDLES", "/x.cubit::y.cubit");
  set("CUBIT_PUBLIC_KEYS", "ab:cd");
  set("CUBIT_CACHE_TRUST", "user:alice");
  set("CUBIT_LOCK_WAIT", "7");
  set("CUBIT_COMPILER", "exact");
  const Settings settings = Settings::from_environment();
  EXPECT_THAT(settings.system_caches, ElementsAre("/a", "/b c"));
  EXPECT_THAT(settings.bundles, ElementsAre("/x.cubit", "y.cubit"));
  EXPECT_EQ(settings.public_keys, "ab:cd");
  EXPECT_FALSE(settings.allow_local_compile);
  EXPECT_EQ(settings.cache_trust, "user:alice");
  EXPECT_EQ(settings.lock_wait, std::chrono::seconds(7));
  EXPECT_EQ(settings.compiler_policy, CompilerPolicy::exact);
  for (const auto& [name, value] :
       {std::pair{"CUBIT_LOCK_WAIT", "7s"}, {"CUBIT_LOCK_WAIT", "-1"}, {"CUBIT_COMPILER", "mine"}}) {
    SettingsTest::SetUp();
    set(name, value);
    EXPECT_THROW(Settings::from_environment(), Failure) << name;
  }
}

TEST_F(SettingsTest, TheCompilerIsAPolicyOrAVersion) {
  EXPECT_EQ(Settings::from_environment().compiler_policy, CompilerPolicy::any);
  set("CUBIT_COMPILER", "exact");
  EXPECT_FALSE(Settings::from_environment().compiler_version.has_value());
  set("CUBIT_COMPILER", "13.0.88");
  EXPECT_EQ(Settings::from_environment().compiler_policy, CompilerPolicy::exact);
  EXPECT_EQ(Settings::from_environment().compiler_version, (CompilerVersion{13, 0, 88}));
  for (const char* value :
       {"13", "13.0", "13.0.", "13.0.88.1", "13.0.88x", "13..88", "-1.0.88", " 13.0.88", "13.0.-8"}) {
    set("CUBIT_COMPILER", value);
    EXPECT_THROW(Settings::from_environment(), Failure) << value;
  }
}

TEST_F(SettingsTest, LimitsOfTheCacheFolder) {
  EXPECT_EQ(Settings::from_environment().cache_max_bytes, 0u);
  EXPECT_EQ(Settings::from_environment().cache_max_days, 0);
  for (const auto& [value, bytes] :
       std::initializer_list<std::pair<const char*, std::uint64_t>>{{"", 0},
                                                                    {"0", 0},
                                                                    {"0G", 0},
                                                                    {"7", 7},
                                                                    {"3K", 3072},
                                                                    {"500M", 524'288'000},
                                                                    {"2G", 2'147'483'648},
                                                                    {"17179869183G", 17179869183ull << 30},
                                                                    {"18446744073709551615", UINT64_MAX}}) {
    set("CUBIT_CACHE_MAX_BYTES", value);
    EXPECT_EQ(Settings::from_environment().cache_max_bytes, bytes) << value;
  }
  for (const char* value : {"2T", "G", "-1", "1.5G", "1 G", "1g", "2GB", "17179869184G", "18446744073709551616"}) {
    set("CUBIT_CACHE_MAX_BYTES", value);
    EXPECT_THROW(Settings::from_environment(), Failure) << value;
  }
  unsetenv("CUBIT_CACHE_MAX_BYTES");
  for (const auto& [value, days] :
       std::initializer_list<std::pair<const char*, int>>{{"", 0}, {"0", 0}, {"30", 30}, {"36500", 36500}}) {
    set("CUBIT_CACHE_MAX_DAYS", value);
    EXPECT_EQ(Settings::from_environment().cache_max_days, days) << value;
  }
  for (const char* value : {"36501", "-1", "1d", "d"}) {
    set("CUBIT_CACHE_MAX_DAYS", value);
    EXPECT_THROW(Settings::from_environment(), Failure) << value;
  }
}

TEST_F(SettingsTest, FoldersForNvrtcInOrderOfPreference) {
  set("HOME", "/home/someone");
  EXPECT_EQ(Settings::from_environment().nvrtc_folder.path, "");
  set("CUDA_PATH", "/other");
  EXPECT_EQ(Settings::from_environment().nvrtc_folder.path, "/other");
  set("CUDA_HOME", "/toolkit");
  EXPECT_EQ(Settings::from_environment().nvrtc_folder.path, "/toolkit");
  set("CUBIT_NVRTC_DIR", "/wheels");
  set("VIRTUAL_ENV", "/venv");
  set("CONDA_PREFIX", "/conda");
  set("CUBIT_NVRTC", "/library.so");
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.nvrtc_folder.path, "/wheels");
  EXPECT_EQ(settings.nvrtc_folder.variable, "CUBIT_NVRTC_DIR");
  EXPECT_THAT(settings.nvrtc_folders, ElementsAre("/venv", "/conda", "/home/someone/.local"));
  EXPECT_EQ(settings.nvrtc_path, "/library.so");
}

TEST_F(SettingsTest, CompilePolicyAcceptsTwoWordsOnly) {
  set("CUBIT_COMPILE", "never");
  EXPECT_EQ(Settings::from_environment().compile_policy, CompilePolicy::never);
  set("CUBIT_COMPILE", "allow");
  EXPECT_EQ(Settings::from_environment().compile_policy, CompilePolicy::allow);
  set("CUBIT_COMPILE", "Never");
  try {
    Settings::from_environment();
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    EXPECT_THAT(failure.what(), HasSubstr("CUBIT_COMPILE=Never"));
    EXPECT_THAT(failure.what(), HasSubstr("allow or never"));
  }
}

TEST_F(SettingsTest, CompilePolicyOfTheCallerLeavesTheVariableUnread) {
  set("CUBIT_COMPILE", "maybe");
  EXPECT_EQ(Settings::from_environment(CompilePolicy::never).compile_policy, CompilePolicy::never);
  EXPECT_EQ(Settings::from_environment(CompilePolicy::allow).compile_policy, CompilePolicy::allow);
}

}  // namespace
}  // namespace cubit::runtime
