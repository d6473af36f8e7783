// Keeps two processes from updating one file at a time.
#pragma once

#include <string>

namespace cubit::tools {

/// Locks a file that this process reads and later replaces. The lock is PATH.lock, because OutputFile replaces PATH
/// itself. The destructor removes PATH.lock. The system releases the lock of a killed process, so a PATH.lock that a
/// killed process leaves does no harm.
class FileLock {
 public:
  /// Throws BadInput if another FileLock has the file, or if PATH.lock cannot be made. `option` named the file.
  FileLock(const std::string& option, const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string lock_;
  int descriptor_ = -1;
};

}  // namespace cubit::tools
