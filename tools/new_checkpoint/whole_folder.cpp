#include "tools/new_checkpoint/whole_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>

#include "files/input_file.hpp"
#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {

namespace fs = std::filesystem;

namespace {
constexpr const char* kRequest = "request.note";
constexpr const char* kLock = "lock.note";
}  // namespace

WholeFolder::WholeFolder(const std::string& path, const std::string& option, const std::string& request)
    : path_(path), temporary_(path) {
  while (temporary_.ends_with('/')) temporary_.pop_back();
  temporary_ += ".partial";
  std::error_code error;
  if (path.empty() || (fs::exists(path) && !(fs::is_directory(path) && fs::is_empty(path, error))))
    throw BadInput(option + " " + quote(path), "is not a new or empty folder", "give another folder");
  make_folder(temporary_, option);
  lock(option);
  const bool continues = has(kRequest) && !request.empty() && whole_text(file(kRequest)) == request;
  remove_leftovers(continues);
  if (!continues) OutputFile(file(kRequest)).commit_text(request);
}

WholeFolder::~WholeFolder() {
  if (lock_ < 0) return;
  std::error_code error;
  fs::remove_all(temporary_, error);
  ::close(lock_);
}

/// The system releases the lock when the process ends.
void WholeFolder::lock(const std::string& option) {
  const int descriptor = ::open(file(kLock).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor < 0) throw BadInput(option + " " + quote(path_), "cannot be written", "give another folder");
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    lock_ = descriptor;
    return;
  }
  ::close(descriptor);
  throw BadInput(option + " " + quote(path_), "another process is writing this folder", "wait for it to end");
}

/// Removes what an earlier process has left, but not the lock: files that it was writing, and unless this process
/// continues its request, complete files too. OutputFile writes to files *.tmp.
void WholeFolder::remove_leftovers(bool keeps_files) const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(temporary_, error))
    if (entry.path().filename() != kLock && (!keeps_files || entry.path().extension() == ".tmp"))
      fs::remove_all(entry.path(), error);
}

std::string WholeFolder::file(const std::string& name) const { return (fs::path(temporary_) / name).string(); }

bool WholeFolder::has(const std::string& name) const {
  std::error_code error;
  return fs::is_regular_file(file(name), error);
}

void WholeFolder::publish(const std::function<void()>& write_reports) {
  try {
    write_reports();
  } catch (...) {
    rename();
    throw;
  }
  rename();
}

/// Removes the request last: without the request, a later process would begin again.
void WholeFolder::rename() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(temporary_, error))
    if (entry.path().extension() == ".note" && entry.path().filename() != kRequest) fs::remove(entry.path(), error);
  fs::remove(file(kRequest), error);
  fs::rename(temporary_, path_, error);
  if (error) throw WorkFailed(path_, "cannot be written: " + error.message());
}

std::string folder_of(const CheckpointReader& checkpoint) {
  const fs::path folder = fs::path(checkpoint.path()).parent_path();
  return folder.empty() ? "." : folder.string();
}

void require_writable(const std::string& path) { const OutputFile probe(path); }

std::string whole_text(const std::string& path) {
  constexpr std::uint64_t kLargestText = std::uint64_t{16} << 20;
  const InputFile file(path);
  if (file.bytes() > kLargestText) throw BadInput(path, "is too large", "accepted: at most 16 MiB");
  std::string text(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void copy_texts(const std::string& source, const WholeFolder& folder) {
  if (!fs::exists(fs::path(source) / "config.json")) return;
  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    const std::string end = entry.path().extension().string();
    const bool is_wanted = end == ".json" || end == ".txt" || end == ".model" || end == ".jinja";
    if (!entry.is_regular_file() || !is_wanted || name.ends_with(".index.json")) continue;
    std::error_code error;
    fs::copy_file(entry.path(), folder.file(name), fs::copy_options::overwrite_existing, error);
    if (error) throw WorkFailed(entry.path().string(), "cannot be copied: " + error.message());
  }
}

}  // namespace cubit::tools
