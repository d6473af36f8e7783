#include "runtime/cache/holder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "runtime/cache/entry_files.hpp"

namespace cubit::runtime {

Holder::~Holder() {
  if (process_ == ::getpid()) unlock_and_remove(path_, file_);
}

void Holder::hold(const std::filesystem::path& folder, const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (process_ != ::getpid()) {
    const auto name =
        fmt::format("{}{}{}{}{}", kHolderMark, file_clock_now(), kMachineMark, this_machine(), kLockSuffix);
    path_ = folder / name;
    file_ = File();
    ids_.clear();
    process_ = ::getpid();
    if (lock_file(path_, file_, {}) != 0) file_ = File();
  }
  if (!file_.open() || !ids_.insert(id).second) return;
  const std::string line = id + "\n";
  // Part of a line is no id. The entry is then not held, as if there were no list.
  static_cast<void>(::write(file_.descriptor(), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
}

std::set<std::string> held_ids(const std::vector<std::filesystem::path>& lock_files) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20U;  // more than any process holds
  std::set<std::string> ids;
  for (const std::filesystem::path& path : lock_files) {
    File file;
    FileFacts facts;
    std::string content;
    if (!is_holder(path) || open_regular(path, file, facts) != 0 || read_some(file, kMostBytes, content) != 0) continue;
    std::istringstream lines(std::move(content));
    for (std::string id; std::getline(lines, id);) ids.insert(std::move(id));
  }
  return ids;
}

}  // namespace cubit::runtime
