#include "files/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "files/text/error.hpp"

namespace cubit::tools {

FileLock::FileLock(const std::string& option, const std::string& path) {
  std::error_code error;
  lock_ = std::filesystem::weakly_canonical(path, error).string() + ".lock";  // one lock for all links to the file
  constexpr int kMostAttempts = 100;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    descriptor_ = ::open(lock_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) break;
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0 && status.st_nlink > 0) return;
    ::close(descriptor_);  // the process that had the lock removed the file in between
  }
  const int cause = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  if (cause == EWOULDBLOCK)
    throw BadInput(option + " " + path, "another process is updating this file",
                   "wait for it to end, or give another file");
  throw BadInput(option + " " + path, std::string("cannot be locked: ") + std::strerror(cause), kWritableWanted);
}

FileLock::~FileLock() {
  ::unlink(lock_.c_str());
  ::close(descriptor_);
}

}  // namespace cubit::tools
