// Proves with fake NVRTC libraries: every documented place is searched, the newest version that the driver accepts is
// chosen, and if there is none, one error lists the candidates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "runtime/compiler/load_nvrtc.hpp"
#include "runtime/compiler/nvrtc_search.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class NvrtcSearchTest : public testing::Test {
 protected:
  /// Puts the fake of `version` ("12.9") at `place` below the folder.
  fs::path put(const std::string& version, const fs::path& place) {
    fs::path file = folder_.path() / place;
    fs::create_directories(file.parent_path());
    fs::copy_file(fs::path(FAKE_NVRTC_FOLDER) / ("libfake_nvrtc_" + version + ".so"), file);
    return file;
  }
  CompilerVersion chosen(int driver_major) {
    const std::vector<std::string> folders = {folder_.path().string()};
    return load_nvrtc("", driver_major, folders)->version();
  }
  std::string refusal(const std::string& path, int driver_major) {
    try {
      static_cast<void>(load_nvrtc(path, driver_major));
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::compiler_unavailable);
      EXPECT_THAT(failure.what(), AllOf(HasSubstr("CUBIT_NVRTC"), HasSubstr("nvidia-cuda-nvrtc")));
      return failure.what();
    }
    return {};
  }

  test::TemporaryFolder folder_;
};

TEST_F(NvrtcSearchTest, EveryDocumentedPlaceIsSearched) {
  for (const char* place :
       {"libnvrtc.so.12", "lib64/libnvrtc.so.12", "lib/libnvrtc.so.12", "targets/x86_64-linux/lib/libnvrtc.so.12",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cu13/lib/libnvrtc.so.13",
        "wheels/nvidia/cu13/lib/libnvrtc.so.13", "lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"}) {
    const fs::path file = put("12.9", place);
    const std::vector<std::string> folders = {folder_.path().string()};
    EXPECT_THAT(nvrtc_candidates(folders), testing::Contains(file.string()));
    fs::remove(file);
  }
}

TEST_F(NvrtcSearchTest, AnEngineThatMayNotCompileLoadsNone) {
  Settings settings{.cache_dir = (folder_.path() / "cache").string(), .nvrtc_path = put("12.8", "libnvrtc.so.12")};
  const codegen::KernelSource source = test::small_source();
  DiskCache(settings.cache_dir, {}).publish(test::small_artifact(source, {12, 8, 0}));
  settings.compile_policy = CompilePolicy::never;
  test::Lines lines(LogLevel::debug);
  Engine engine(settings, lines.sink());
  engine.get(source);
  const auto loaded = testing::Contains(HasSubstr("NVRTC 12.8"));
  EXPECT_THAT(lines.all(), testing::Not(loaded));
  engine.compiler();
  EXPECT_THAT(lines.all(), loaded) << "or the line above proves nothing";
}

TEST_F(NvrtcSearchTest, LinksToOneFileAreOneCandidate) {
  const fs::path file = put("12.9", "lib64/libnvrtc.so.12.9.7");
  fs::create_symlink(file, file.parent_path() / "libnvrtc.so.12");
  fs::create_symlink(file, file.parent_path() / "libnvrtc.so");
  put("12.9", "lib64/libnvrtc-builtins.so.12.9");
  const std::vector<std::string> folders = {folder_.path().string()};
  const auto candidates = nvrtc_candidates(folders);
  EXPECT_EQ(std::count_if(candidates.begin(), candidates.end(),
                          [&](const std::string& path) { return path.starts_with(folder_.path().string()); }),
            1);
}

TEST_F(NvrtcSearchTest, AFoldersNameIsNoPattern) {
  put("12.9", "lib64/libnvrtc.so.12");
  const std::vector<std::string> folders = {folder_.path().string().substr(0, 6) + "*/"};
  for (const std::string& candidate : nvrtc_candidates(folders)) {
    EXPECT_FALSE(candidate.starts_with(folder_.path().string())) << candidate;
  }
}

TEST_F(NvrtcSearchTest, TheNewestThatTheDriverTakes) {
  put("12.8", "nvidia/a/lib/libnvrtc.so.12");
  put("12.9", "nvidia/b/lib/libnvrtc.so.12");
  put("99.1", "nvidia/c/lib/libnvrtc.so.99");
  EXPECT_EQ(chosen(12).text(), "12.9.7");
  EXPECT_EQ(chosen(99).text(), "99.1.7");
  EXPECT_EQ(chosen(0).text(), "99.1.7") << "no driver: any";
}

TEST_F(NvrtcSearchTest, AFolderThatTheUserNamesWinsOverNewerLibraries) {
  put("12.8", "named/lib64/libnvrtc.so.12");
  put("99.1", "other/libnvrtc.so.99");
  const std::vector<std::string> folders = {(folder_.path() / "other").string()};
  const NamedFolder named{(folder_.path() / "named").string(), "CUDA_HOME"};
  EXPECT_EQ(load_nvrtc("", 0, folders, named)->version().text(), "12.8.7");
  EXPECT_EQ(load_nvrtc("", 0, folders)->version().text(), "99.1.7") << "or the line above proves nothing";
}

TEST_F(NvrtcSearchTest, AFolderThatTheUserNamesIsUsedOrRefused) {
  put("99.1", "good/libnvrtc.so.99");
  const std::vector<std::string> folders = {(folder_.path() / "good").string()};
  const auto refusal_of = [&](const fs::path& folder, int driver_major) -> std::string {
    try {
      load_nvrtc("", driver_major, folders, {folder.string(), "CUDA_HOME"});
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::compiler_unavailable);
      return failure.what();
    }
    return "another library was taken";
  };
  const fs::path missing = folder_.path() / "missing";
  EXPECT_THAT(refusal_of(missing, 0), AllOf(HasSubstr("CUDA_HOME=" + missing.string()),
                                            HasSubstr("there is no such folder"), HasSubstr("unset CUDA_HOME")));
  fs::create_directory(folder_.path() / "empty");
  EXPECT_THAT(refusal_of(folder_.path() / "empty", 0), HasSubstr("the folder holds no NVRTC library"));
  EXPECT_THAT(refusal_of(folder_.path() / "good", 12), HasSubstr("newer than the driver"));
}

TEST_F(NvrtcSearchTest, NothingUsableIsOneErrorThatListsWhatWasTried) {
  const fs::path file = put("99.1", "libnvrtc.so.99");
  const std::vector<std::string> folders = {folder_.path().string()};
  try {
    load_nvrtc("", 11, folders);
    FAIL() << "found one";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::compiler_unavailable);
    EXPECT_THAT(failure.what(),
                AllOf(HasSubstr(file.string() + ": version 99.1 is newer than the driver, which takes 11.x"),
                      HasSubstr("libnvrtc.so.13"), HasSubstr("CUBIT_NVRTC_DIR")));
  }
}

TEST_F(NvrtcSearchTest, APathIsTakenAtItsWord) {
  const fs::path file = put("99.1", "some name.so");
  EXPECT_EQ(load_nvrtc(file.string(), 12)->version().text(), "99.1.7");
}

TEST_F(NvrtcSearchTest, OneLibraryPerPath) {
  const fs::path file = put("99.1", "libnvrtc.so.99");
  fs::create_symlink(file, folder_.path() / "link.so");
  EXPECT_EQ(load_nvrtc(file.string(), 0), load_nvrtc((folder_.path() / "link.so").string(), 0));
}

TEST_F(NvrtcSearchTest, WhatIsNoNvrtcIsRefusedWithItsReason) {
  const std::string missing = (folder_.path() / "missing.so").string();
  EXPECT_THAT(refusal(missing, 0), AllOf(HasSubstr("(" + missing + ": cannot open"), HasSubstr("No such file")));
  test::write_whole(folder_.path() / "text.so", "not a library");
  EXPECT_THAT(refusal((folder_.path() / "text.so").string(), 0), HasSubstr("text.so"));
  EXPECT_THAT(refusal(put("12.7", "old.so").string(), 0), HasSubstr("12.7, older than 12.8"));
  EXPECT_THAT(refusal(put("no_cubin", "part.so").string(), 0), HasSubstr("no function nvrtcGetCUBINSize"));
}

}  // namespace
}  // namespace cubit::runtime
