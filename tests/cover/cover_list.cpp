// See cover_list.hpp. Making the pairwise list asks libcubit about millions of combinations, which takes most of a
// minute.
#include "tests/cover/cover_list.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cubit/cubit.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace cubit::tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string identity_of(const fs::path& file) {
  const fs::path whole = fs::canonical(file);
  return whole.string() + " " + std::to_string(fs::file_size(whole)) + " " +
         std::to_string(fs::last_write_time(whole).time_since_epoch().count());
}

/// The files whose code decides what the list holds.
std::string maker() {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&cubit_operators), &library) == 0)
    throw std::runtime_error("libcubit's file is unknown");
  return identity_of("/proc/self/exe") + "\n" + identity_of(library.dli_fname);
}

/// Held by one process at a time, until that process ends at the latest.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ < 0 || ::flock(file_, LOCK_EX) != 0) throw std::runtime_error("cannot lock " + path);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() { ::close(file_); }

 private:
  int file_;
};

}  // namespace

Cover remembered_cover(const std::string& path, const std::function<Cover()>& make) {
  const FileLock lock(path + ".lock");
  const std::string made_by = maker();
  std::ifstream file(path);
  const Json kept = Json::parse(file, nullptr, false);  // discarded where there is no such file or no whole one
  if (kept.is_object() && kept.value("made_by", "") == made_by)
    return {kept.at("descriptors"), kept.at("pairs"), kept.at("legal_pairs")};
  Cover cover = make();
  const Json fresh = {{"made_by", made_by},
                      {"descriptors", cover.descriptors},
                      {"pairs", cover.pairs},
                      {"legal_pairs", cover.legal_pairs}};
  if (!(std::ofstream(path) << fresh.dump(1))) throw std::runtime_error("cannot write " + path);
  return cover;
}

}  // namespace cubit::tests
