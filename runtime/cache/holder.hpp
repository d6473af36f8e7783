// The list of the entries whose code an engine holds in memory. prune() leaves these entries, so that the next process
// of a serving system finds them.
//
// The list is a file beside the subfolders, "holder<time>.machine<number>.lock", with an artifact id in each line. The
// engine keeps the file locked, and deletes it at the end. Housekeeping deletes the lists of dead processes: those of
// this machine since its last boot at once, because their locks are free, and others after 30 days.
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

  /// Adds an entry to the list. The first call makes the list in `folder`. A full disk, or a file system without locks,
  /// prevents the list. The entry may then be pruned, and the code in memory stays good.
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
