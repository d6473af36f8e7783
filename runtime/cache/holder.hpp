// The list of the entries whose code a process holds in memory. prune() leaves these entries, so that the next process
// of a serving system finds them.
//
// The list is a file beside the subfolders, "holder<time>.machine<number>.lock", with an artifact id in each line. The
// process keeps the file locked and deletes it at the end. The operating system frees the lock of a dead process, and
// housekeeping then deletes the file.
#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/cache/files.hpp"

namespace cubit::runtime {

class Holder {
 public:
  Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder();

  /// Adds an entry to the list, which the first call makes in `folder`. Without the list, because of a full disk or a
  /// file system without locks, the entry may be pruned; the code in memory stays good.
  void hold(const std::filesystem::path& folder, const std::string& id);

 private:
  std::mutex mutex_;
  std::filesystem::path path_;
  File file_;
  int process_ = 0;  ///< the list belongs to this process and not to its children
  std::set<std::string> ids_;
};

/// The ids in the lists among `lock_files`.
std::set<std::string> held_ids(const std::vector<std::filesystem::path>& lock_files);

}  // namespace cubit::runtime
