// Replacements for system calls that can fail, which the linker wraps (see CMakeLists.txt). Where the kernel allows it,
// tests also use real conditions: a full tmpfs and a read-only mount.
#pragma once

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <functional>
#include <map>

#include "runtime/cache/disk_cache.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

// The wrapped calls. The linker's option --wrap determines these names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
int __real_rename(const char* from, const char* to);
int __real_flock(int file, int operation);
int __real_mkdir(const char* path, mode_t mode);
int __real_fsync(int file);
int __real_access(const char* path, int mode);
int __real_open(const char* path, int flags, ...);
ssize_t __real_read(int file, void* bytes, std::size_t size);
int __real_fstat(int file, struct stat* status);
DIR* __real_opendir(const char* path);
ssize_t __real_write(int file, const void* bytes, std::size_t size);
int __real_unlink(const char* path);
int __real_remove(const char* path);
int __real_rmdir(const char* path);
int __real_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags);
int __real_fchmod(int file, mode_t mode);
int __real_utimensat(int folder, const char* path, const struct timespec* times, int flags);
int __real_lstat(const char* path, struct stat* status);
int __real_clock_gettime(clockid_t clock, struct timespec* time);
int __real_getpwuid_r(uid_t user, struct passwd* record, char* texts, std::size_t size, struct passwd** result);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace cubit::runtime {

/// Replacements for system calls; an empty function calls the real one.
struct Faults {
  std::function<void()> step;  ///< called before each call that changes files or opens one
  std::function<int(const char* from, const char* to)> rename;
  std::function<int(int file, int operation)> flock;
  std::function<int(const char* path, mode_t mode)> mkdir;
  std::function<int(int file)> fsync;
  std::function<int(const char* path, int mode)> access;
  std::function<int(const char* path)> open;  ///< -1 with errno set fails the call; any other value calls the real open
  std::function<ssize_t(int file, void* bytes, std::size_t size)> read;
  std::function<void(struct stat* status)> after_fstat;
  std::function<int(const char* path, struct stat* status)> lstat;
  std::chrono::seconds clock_error{0};            ///< added to the clock of file times
  std::function<void(const char* path)> opendir;  ///< called before the real opendir
  std::function<void()> look_up_user;             ///< called before the real getpwuid_r
  std::map<uid_t, gid_t> users;  ///< users that getpwuid_r finds, with their groups, besides the real ones
};
extern Faults faults;

inline int failing(int error) {
  errno = error;
  return -1;
}

/// Skips the test if the child was not allowed to run its experiment, and fails the test if the child complains.
void expect_well(test::Child child);

class DiskCacheFaultTest : public testing::Test {
 protected:
  ~DiskCacheFaultTest() override { faults = {}; }

  std::filesystem::path cache_folder() const { return folder_.path() / "cache"; }
  std::filesystem::path entry_of(const Artifact& artifact) const {
    return cache_folder() / "v2" / artifact.key.hex().substr(0, 2) /
           (artifact_id(artifact.key, artifact.compiler) + ".cubit");
  }
  /// The file whose time says when a process cleaned up in all subfolders last.
  std::filesystem::path marker() const { return cache_folder() / "v2" / "pruned"; }
  /// All files of the cache but marker().
  std::vector<std::filesystem::path> cache_files() const {
    std::vector<std::filesystem::path> files = test::files_ending(cache_folder(), "");
    std::erase(files, marker());
    return files;
  }
  Engine engine(const std::filesystem::path& folder) {
    return Engine({.cache_dir = folder.string()}, lines_.sink(), compiler_);
  }

  test::TemporaryFolder folder_;
  test::Lines lines_;
  std::shared_ptr<test::CountingCompiler> compiler_ =
      std::make_shared<test::CountingCompiler>(folder_.path() / "count");
  codegen::KernelSource source_ = test::small_source();
  Artifact artifact_ = test::small_artifact(source_);
};

}  // namespace cubit::runtime
