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

int __wrap_rename(const char* from, const char* to) {
  return faults.rename ? faults.rename(from, to) : __real_rename(from, to);
}
int __wrap_flock(int file, int operation) {
  return faults.flock ? faults.flock(file, operation) : __real_flock(file, operation);
}
int __wrap_mkdir(const char* path, mode_t mode) {
  return faults.mkdir ? faults.mkdir(path, mode) : __real_mkdir(path, mode);
}
int __wrap_fsync(int file) { return faults.fsync ? faults.fsync(file) : __real_fsync(file); }
int __wrap_access(const char* path, int mode) {
  return faults.access ? faults.access(path, mode) : __real_access(path, mode);
}
// The mode is garbage if the caller passes none; the file system then ignores the mode.
int __wrap_open(const char* path, int flags, mode_t mode) {
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
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
