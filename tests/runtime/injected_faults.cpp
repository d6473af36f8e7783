// Wraps system calls, so that tests can make them fail.
#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {

Faults faults;

void expect_well(test::Child child) {
  const std::string said = child.join();
  if (said.starts_with(test::kNotAllowedHere)) GTEST_SKIP() << said;
  EXPECT_EQ(said, "");
}

}  // namespace cubit::runtime

using cubit::runtime::faults;

static void step() {
  if (faults.step) faults.step();
}

// The linker's option --wrap determines these names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
int __wrap_rename(const char* from, const char* to);
int __wrap_flock(int file, int operation);
int __wrap_mkdir(const char* path, mode_t mode);
int __wrap_fsync(int file);
int __wrap_access(const char* path, int mode);
int __wrap_open(const char* path, int flags, mode_t mode);
ssize_t __wrap_read(int file, void* bytes, std::size_t size);
int __wrap_fstat(int file, struct stat* status);
DIR* __wrap_opendir(const char* path);
ssize_t __wrap_write(int file, const void* bytes, std::size_t size);
int __wrap_unlink(const char* path);
int __wrap_remove(const char* path);
int __wrap_rmdir(const char* path);
int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags);
int __wrap_fchmod(int file, mode_t mode);
int __wrap_utimensat(int folder, const char* path, const struct timespec* times, int flags);
int __wrap_lstat(const char* path, struct stat* status);
int __wrap_clock_gettime(clockid_t clock, struct timespec* time);
int __wrap_getpwuid_r(uid_t user, struct passwd* record, char* texts, std::size_t size, struct passwd** result);

int __wrap_rename(const char* from, const char* to) {
  step();
  return faults.rename ? faults.rename(from, to) : __real_rename(from, to);
}
int __wrap_flock(int file, int operation) {
  step();
  return faults.flock ? faults.flock(file, operation) : __real_flock(file, operation);
}
int __wrap_mkdir(const char* path, mode_t mode) {
  step();
  return faults.mkdir ? faults.mkdir(path, mode) : __real_mkdir(path, mode);
}
int __wrap_fsync(int file) {
  step();
  return faults.fsync ? faults.fsync(file) : __real_fsync(file);
}
ssize_t __wrap_write(int file, const void* bytes, std::size_t size) {
  step();
  return __real_write(file, bytes, size);
}
int __wrap_unlink(const char* path) {
  step();
  return __real_unlink(path);
}
int __wrap_remove(const char* path) {
  step();
  return __real_remove(path);
}
int __wrap_rmdir(const char* path) {
  step();
  return __real_rmdir(path);
}
int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  step();
  return __real_renameat2(from_folder, from, to_folder, to, flags);
}
int __wrap_fchmod(int file, mode_t mode) {
  step();
  return __real_fchmod(file, mode);
}
int __wrap_utimensat(int folder, const char* path, const struct timespec* times, int flags) {
  step();
  return __real_utimensat(folder, path, times, flags);
}
int __wrap_lstat(const char* path, struct stat* status) {
  return faults.lstat ? faults.lstat(path, status) : __real_lstat(path, status);
}
int __wrap_clock_gettime(clockid_t clock, struct timespec* time) {
  const int result = __real_clock_gettime(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += faults.clock_error.count();
  return result;
}
int __wrap_getpwuid_r(uid_t user, struct passwd* record, char* texts, std::size_t size, struct passwd** result) {
  if (faults.look_up_user) faults.look_up_user();
  if (const auto known = faults.users.find(user); known != faults.users.end()) {
    static char name[] = "made_up";
    *record = {};
    record->pw_name = name;
    record->pw_uid = user;
    record->pw_gid = known->second;
    *result = record;
    return 0;
  }
  return __real_getpwuid_r(user, record, texts, size, result);
}
int __wrap_access(const char* path, int mode) {
  return faults.access ? faults.access(path, mode) : __real_access(path, mode);
}
// The mode is garbage if the caller passes none; the file system then ignores the mode.
int __wrap_open(const char* path, int flags, mode_t mode) {
  step();
  return faults.open && faults.open(path) < 0 ? -1 : __real_open(path, flags, mode);
}
ssize_t __wrap_read(int file, void* bytes, std::size_t size) {
  return faults.read ? faults.read(file, bytes, size) : __real_read(file, bytes, size);
}
int __wrap_fstat(int file, struct stat* status) {
  const int result = __real_fstat(file, status);
  if (faults.after_fstat) faults.after_fstat(status);
  return result;
}
DIR* __wrap_opendir(const char* path) {
  if (faults.opendir) faults.opendir(path);
  return __real_opendir(path);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
