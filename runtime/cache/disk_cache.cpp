// Implements the disk cache's guarantees about damaged files, crashes and unusable folders.
#include "runtime/cache/disk_cache.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "runtime/cache/entry_files.hpp"
#include "runtime/cache/files.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;

fs::path settled(const fs::path& folder) {
  if (folder.empty()) return folder;
  std::error_code error;
  // The process may change its working directory later, and the cache must stay where it was.
  fs::path result = fs::absolute(folder, error).lexically_normal();
  if (error) return folder;
  return result.has_filename() ? result : result.parent_path();
}

/// Says why `artifact` is not what a request needs, or returns "" if it is. The target and the entry point are compared
/// because a forged file may have the right key and a good hash.
std::string mismatch(const Artifact& artifact, const StoreRequest& request) {
  if (artifact.key != request.key || (request.exact && artifact.compiler != *request.exact)) {
    return "its content belongs to " + artifact_id(artifact.key, artifact.compiler);
  }
  if (request.target.empty() || (artifact.target == request.target && artifact.entry_point == request.entry_point &&
                                 artifact.code == request.code))
    return {};
  return fmt::format("its content is {} for {}, and its key stands for {} for {}", artifact.entry_point,
                     artifact.target, request.entry_point, request.target);
}

/// Names of the files in the folder that begin with `prefix`. Faster than a directory_iterator, which makes a path of
/// every name.
std::vector<std::string> names_with_prefix(const fs::path& folder, std::string_view prefix) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), &::closedir);
  if (!open) return names;
  while (const dirent* const entry = ::readdir(open.get())) {
    if (const std::string_view name = entry->d_name; name.starts_with(prefix)) names.emplace_back(name);
  }
  return names;
}

/// A link in place of a folder could lead to a folder of another user's choice.
bool is_link(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored);
}

std::string remedy_for_distrust() {
  return ", so others could make this program run their code (copy it with cp -r to a folder of your own, take the "
         "permission away with chmod g-w or chmod -R go-w, name who is trusted in CUBIT_CACHE_TRUST, or ship the "
         "kernels "
         "in a signed bundle)";
}

}  // namespace

DiskCache::DiskCache(const fs::path& folder, LogSink log, DiskCacheOptions options)
    : folder_(settled(folder)), log_(std::move(log)), options_(std::move(options)) {
  if (folder_.empty()) return;
  trouble_ = prepare_folder();
  if (trouble_.empty() || (options_.is_system && readable_)) return;
  warn(fmt::format("disk cache {}: {}; {}", folder_.string(), trouble_,
                   readable_ ? "entries are read, none are stored" : "going on without this disk cache"));
}

/// Sets readable_ and writable_, and returns what is wrong with the folder.
std::string DiskCache::prepare_folder() {
  int error = options_.is_system ? 0 : create_folders(folder_);
  if (error == ENOTDIR) return "it, or a folder above it, is not a folder";
  if (error != 0) return "it cannot be created: " + file_error(error);
  Ownership ownership;
  error = read_ownership(folder_, ownership);
  if (error != 0) return "it cannot be read: " + file_error(error);
  const std::string distrust = options_.trust.distrust_of_folder(ownership);
  if (!distrust.empty()) return distrust + remedy_for_distrust();
  if (::access(folder_.c_str(), X_OK) != 0) return "it cannot be read: " + file_error(errno);
  const fs::path entries = schema_folder(folder_);
  if (is_link(entries)) return fmt::format("{} in it is a symbolic link", entries.filename().native());
  error = options_.is_system ? 0 : create_folder_like_parent(entries);
  readable_ = ::access(entries.c_str(), R_OK | X_OK) == 0;
  if (!readable_ && error == 0) return "it cannot be read: " + file_error(errno);
  if (error == ENOTDIR || error == EEXIST) return fmt::format("{} in it is not a folder", entries.filename().native());
  if (error != 0) return "it cannot be created: " + file_error(error);
  if (options_.is_system) return {};
  writable_ = ::access(entries.c_str(), W_OK | X_OK) == 0;
  return writable_ ? std::string() : "it cannot be written: " + file_error(errno);
}

void DiskCache::warn(std::string_view line) const {
  if (log_) log_(LogLevel::warning, line);
}

DiskCache::Fate DiskCache::remove_if_still(const fs::path& path, const FileIdentity& identity) const {
  // The holder of the key's lock stores an entry that replaces this one. If there is no lock file, no process has begun
  // to store an entry. The function creates no lock file, because a damaged entry may have any name.
  fs::path lock_path = path;
  lock_path.replace_extension(kLockSuffix);
  std::error_code ignored;
  File held;
  if (fs::exists(fs::symlink_status(lock_path, ignored))) {
    const int error = lock_file(lock_path, held, {});
    if (error != 0 && !lacks_locks(error)) return is_still(path, identity) ? Fate::stays : Fate::replaced;
  }
  Fate fate = Fate::replaced;
  // An empty folder in a file's place is removed as well. The content of a folder does not belong to the cache.
  if (is_still(path, identity)) fate = remove_name(path) ? Fate::deleted : Fate::stays;
  unlock_and_remove(lock_path, held);
  return fate;
}

DiskCache::Fate DiskCache::discard(const fs::path& path, const FileIdentity& identity, std::string_view damage,
                                   const StoreRequest& request) const {
  if (request.leave_as_is) {
    warn(fmt::format("disk cache entry {} is damaged: {}", path.string(), damage));
    return Fate::stays;
  }
  const Fate fate = writable_ ? remove_if_still(path, identity) : Fate::stays;
  if (fate == Fate::replaced) return fate;
  count(refused_, request);
  if (fate == Fate::deleted) count(damaged_, request);
  warn(fmt::format("disk cache entry {} is damaged and {}: {}", path.string(),
                   fate == Fate::deleted ? "was deleted" : "could not be deleted", damage));
  return fate;
}

std::optional<Artifact> DiskCache::read(const fs::path& path, const StoreRequest& request) const {
  bool is_replaced = false;
  std::optional<Artifact> artifact = read_once(path, request, is_replaced);
  return is_replaced ? read_once(path, request, is_replaced) : std::move(artifact);
}

/// Sets `is_replaced` if the file was replaced meanwhile; the caller then reads once more.
std::optional<Artifact> DiskCache::read_once(const fs::path& path, const StoreRequest& request,
                                             bool& is_replaced) const {
  Content content;
  try {
    content = read_content(path, options_.trust);
    if (content.error == kNoRegularFile) content.damage = file_error(content.error);
    if (content.error == 0 && content.distrust.empty() && content.damage.empty()) {
      Artifact artifact = deserialise(content.bytes);
      content.damage = mismatch(artifact, request);
      if (content.damage.empty()) {
        if (!request.leave_as_is) note_use(path, content.file.modified);
        return artifact;
      }
    }
  } catch (const Failure& failure) {
    content.damage = failure.rule();
  } catch (const std::bad_alloc&) {
    content.error = ENOMEM;
  }
  if (content.error == ENOENT || content.error == ENOTDIR) return std::nullopt;
  // Another machine has replaced the entry on a network file system after this process opened it.
  if (content.error == ESTALE && !is_replaced) {
    is_replaced = true;
    return std::nullopt;
  }
  if (!content.distrust.empty()) {
    count(refused_, request);
    warn(fmt::format("disk cache entry {} is not used: {}{}", path.string(), content.distrust, remedy_for_distrust()));
  } else if (!content.damage.empty()) {
    is_replaced = discard(path, content.file.identity, content.damage, request) == Fate::replaced;
  } else {
    warn(fmt::format("disk cache entry {} cannot be read: {}; it stays, and this request goes on without it",
                     path.string(), file_error(content.error)));
  }
  return std::nullopt;
}

/// Paths of entries that may answer the request, newest compiler first.
std::vector<fs::path> DiskCache::candidates(const StoreRequest& request) const {
  if (request.exact) return {entry_path(folder_, artifact_id(request.key, *request.exact))};
  const std::string key = request.key.hex();
  const fs::path folder = subfolder(folder_, key);
  std::vector<std::pair<CompilerVersion, fs::path>> found;
  for (const std::string& name : names_with_prefix(folder, key + "-nvrtc")) {
    if (!is_entry(name)) continue;
    const CompilerVersion version = version_in_id(entry_id(name));
    if (request.accepts(version)) found.emplace_back(version, folder / name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [version, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<Artifact> DiskCache::find(const StoreRequest& request) const {
  if (!readable_) return std::nullopt;
  for (const fs::path& path : candidates(request)) {
    StoreRequest exactly = request;
    if (!request.exact) exactly.exact = version_in_id(entry_id(path));  // else a renamed file could name any version
    if (auto artifact = read(path, exactly)) {
      count(hits_, request);
      return artifact;
    }
  }
  count(misses_, request);
  return std::nullopt;
}

bool DiskCache::holds(const StoreRequest& request) const {
  if (!readable_) return false;
  const auto paths = candidates(request);
  return std::any_of(paths.begin(), paths.end(), [&](const fs::path& path) {
    File file;
    FileFacts facts;
    return open_regular(path, file, facts) == 0 && options_.trust.distrust_of_file(facts.ownership).empty();
  });
}

bool DiskCache::publish(const Artifact& artifact) const {
  if (!writable_) return false;
  const std::string id = artifact_id(artifact.key, artifact.compiler);
  const fs::path path = entry_path(folder_, id);
  std::string content;
  try {
    content = serialise(artifact);
  } catch (const std::exception& error) {  // the kernel itself is good
    warn(fmt::format("disk cache: {} was not stored: {}", id, error.what()));
    return false;
  }
  if (is_link(path.parent_path())) {
    warn(fmt::format("disk cache: {} was not stored: {} is a symbolic link", artifact.descriptor,
                     path.parent_path().string()));
    return false;
  }
  PublishError failure = publish_file(path, content);
  // The subfolder is new, or another process deleted the folder while this process runs.
  if (failure.error == ENOENT && make_subfolder(id) == 0) failure = publish_file(path, content);
  if (failure.error != 0) {
    warn(fmt::format("disk cache: {} was not stored: {} in {}: {}", artifact.descriptor, failure.step,
                     path.parent_path().string(), file_error(failure.error)));
    return false;
  }
  published_.fetch_add(1, std::memory_order_relaxed);
  try {
    for (const fs::path& left : folder_content(path.parent_path())) remove_leftover(left);
  } catch (const std::exception& error) {  // the entry is stored
    warn(fmt::format("disk cache {}: it was not cleaned up: {}", folder_.string(), error.what()));
  }
  return true;
}

/// Makes the subfolder for `id`, and the folders above it if they are gone.
int DiskCache::make_subfolder(std::string_view id) const {
  if (const int error = create_folders(folder_)) return error;
  if (const int error = create_folder_like_parent(schema_folder(folder_))) return error;
  return create_folder_like_parent(subfolder(folder_, id));
}

/// Takes "<id><mark>.lock". Where this user cannot lock that file, because another user lets nobody open it or it is a
/// link, takes the lock that the processes of this user share.
int DiskCache::lock_one(const std::string& id, const std::string& mark, const LockWait& wait, Lock& lock) const {
  Lock::Part part{subfolder(folder_, id) / fmt::format("{}{}{}", id, mark, kLockSuffix), File()};
  int error = lock_file(part.path, part.file, wait);
  if (error == ENOENT && make_subfolder(id) == 0) error = lock_file(part.path, part.file, wait);
  if (error == EACCES || error == EPERM) {
    part.path.replace_filename(fmt::format("{}{}{}{}{}", id, mark, kUserMark, ::geteuid(), kLockSuffix));
    error = lock_file(part.path, part.file, wait);
  }
  if (error == 0) lock.parts_.push_back(std::move(part));
  return error;
}

/// The lock of this machine's processes comes first: on a network file system, locks may hold on one machine only, and
/// other machines then lock and delete the second file as if it were free.
std::optional<DiskCache::Lock> DiskCache::lock(const std::string& id, const std::function<void()>& impatient) const {
  if (!writable_ || is_link(subfolder(folder_, id))) return std::nullopt;
  const std::string shown = (subfolder(folder_, id) / (id + std::string(kLockSuffix))).string();
  const double seconds = std::chrono::duration<double>(options_.lock_wait).count();
  const auto end = std::chrono::steady_clock::now() + options_.lock_wait;
  bool has_warned = false;
  LockWait wait{.most = options_.lock_wait, .patience = options_.lock_patience, .impatient = [&] {
                  if (std::exchange(has_warned, true)) return;
                  warn(
                      fmt::format("disk cache: another process holds {} and may be compiling this kernel; waiting for "
                                  "at most {} s",
                                  shown, seconds));
                  if (impatient) impatient();
                }};
  Lock lock;
  int error = lock_one(id, fmt::format("{}{}", kMachineMark, this_machine()), wait, lock);
  if (error == 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    wait.most = std::max(left, std::chrono::milliseconds(0));
    error = lock_one(id, "", wait, lock);
  }
  if (error == 0) return lock;
  if (error == EWOULDBLOCK) {
    warn(fmt::format("disk cache: another process has held {} for {} s; compiling without it", shown, seconds));
  } else if (log_) {
    log_(LogLevel::debug, fmt::format("no lock on {}: {}", shown, file_error(error)));
  }
  return std::nullopt;
}

StoreReport DiskCache::report() const {
  return {.kind = options_.is_system ? "system folder" : "folder",
          .name = folder_.string(),
          .trouble = trouble_,
          .readable = readable_,
          .writable = writable_,
          .hits = hits_.load(std::memory_order_relaxed),
          .misses = misses_.load(std::memory_order_relaxed),
          .refused = refused_.load(std::memory_order_relaxed),
          .published = published_.load(std::memory_order_relaxed)};
}

DiskCache::Lock::~Lock() {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) unlock_and_remove(part->path, part->file);
}

}  // namespace cubit::runtime
