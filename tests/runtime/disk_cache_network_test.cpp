// The disk cache on a network file system. Each process stands for a client, whose view of the server's files is late:
//
//   - A name that another client has made is unknown to a client until the client opens the folder or changes the
//     folder itself. (NFS keeps the attributes and the missing names of a folder for seconds.)
//   - A path that the client has opened shows its attributes of that time for a while, and asking for attributes takes
//     some milliseconds.
//   - A file that another client has replaced gives ESTALE when it is read, and now and then a path gives ESTALE.
//
// In the first tests all clients share the locks, as with NFS of version 4. In the last ones the locks of each client
// are its own, as with NFS that is mounted with local_lock.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kBootId = "/proc/sys/kernel/random/boot_id";

std::string path_of(int file) {
  std::error_code error;
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", file), error).string();
}

/// Locks a file against the processes of one client alone: a byte of the file stands for each client.
int lock_for_client(int client, int file, int operation) {
  struct flock lock {};
  lock.l_type = static_cast<short>((operation & LOCK_UN) != 0 ? F_UNLCK : F_WRLCK);
  lock.l_whence = SEEK_SET;
  lock.l_start = client;
  lock.l_len = 1;
  const int result = ::fcntl(file, (operation & LOCK_NB) != 0 ? F_OFD_SETLK : F_OFD_SETLKW, &lock);
  if (result != 0 && errno == EAGAIN) errno = EWOULDBLOCK;
  return result;
}

/// What a client knows of the folders on the server.
class ClientView {
 public:
  explicit ClientView(fs::path server) : server_(std::move(server)) {}

  /// The client reads the folder, or changes it.
  void learn(const fs::path& folder) {
    const std::lock_guard guard(mutex_);
    read_[folder] = std::chrono::steady_clock::now();
    list(folder);
  }
  /// The attributes of a path, late and slow.
  int lstat(const fs::path& path, struct stat* status) {
    if (!path.native().starts_with(server_.native())) return __real_lstat(path.c_str(), status);
    std::this_thread::sleep_for(kStatDelay);
    const std::lock_guard guard(mutex_);
    const auto found = attributes_.find(path);
    if (found != attributes_.end() && std::chrono::steady_clock::now() - found->second.since < kAttributesLast) {
      *status = found->second.status;
      return 0;
    }
    return __real_lstat(path.c_str(), status);
  }
  /// Fails the opening of a path: -1 with errno set.
  int open(const fs::path& path) {
    if (!path.native().starts_with(server_.native())) return 0;
    const std::lock_guard guard(mutex_);
    if (++opened_ % 7 == 0) return failing(ESTALE);
    // What is made while the client reads the folder is in its list, too.
    constexpr milliseconds kReading(5);
    Attributes now{.status = {}, .since = std::chrono::steady_clock::now()};
    if (__real_lstat(path.c_str(), &now.status) == 0) attributes_[path] = now;
    const auto read = read_.find(path.parent_path());
    if (read != read_.end() && std::chrono::steady_clock::now() - read->second < kReading) list(read->first);
    if (known_.contains(path) || fs::is_directory(path)) return 0;
    if (fs::exists(path)) return failing(ENOENT);
    known_.insert(path);  // the client may create it
    return 0;
  }

 private:
  void list(const fs::path& folder) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) known_.insert(entry.path());
  }

  static constexpr milliseconds kStatDelay{2};
  static constexpr milliseconds kAttributesLast{20};
  struct Attributes {
    struct stat status {};
    std::chrono::steady_clock::time_point since;
  };

  fs::path server_;
  std::mutex mutex_;
  std::map<fs::path, Attributes> attributes_;
  std::map<fs::path, std::chrono::steady_clock::time_point> read_;
  std::set<fs::path> known_;
  int opened_ = 0;
};

class DiskCacheNetworkTest : public DiskCacheFaultTest {
 protected:
  static constexpr int kClients = 4;
  static constexpr int kProcesses = 3;  // of a client
  static constexpr int kThreads = 3;    // of a process

  enum class Locks { shared, per_client };

  DiskCacheNetworkTest() {
    // Long enough that every client asks before the first compile ends. The count does not depend on the time.
    compiler_ = std::make_shared<test::CountingCompiler>(
        folder_.path() / "count", [](const codegen::KernelSource&) { std::this_thread::sleep_for(milliseconds(200)); });
  }

  /// Every thread of every process of every client requests the kernel.
  void ask_from_all(Locks locks) {
    test::StartingGate gate;
    std::vector<test::Child> children;
    for (int process = 0; process < kClients * kProcesses; ++process) {
      children.emplace_back([&, client = process / kProcesses]() -> std::string {
        ClientView view(cache_folder());
        connect(view, client, locks);
        gate.wait_in_child();
        return ask();
      });
    }
    gate.open();
    for (test::Child& child : children) EXPECT_EQ(child.join(), "");
  }

  static void connect(ClientView& view, int client, Locks locks) {
    faults.open = [&view](const char* path) { return view.open(path); };
    faults.lstat = [&view](const char* path, struct stat* status) { return view.lstat(path, status); };
    faults.opendir = [&view](const char* path) { view.learn(path); };
    faults.rename = [&view](const char* from, const char* to) {
      const int result = __real_rename(from, to);
      view.learn(fs::path(to).parent_path());
      return result;
    };
    faults.read = [client](int file, void* bytes, std::size_t size) -> ssize_t {
      if (path_of(file) == kBootId) {
        const std::string boot_id = fmt::format("{:08x}", client + 1);
        std::memcpy(bytes, boot_id.data(), std::min(size, boot_id.size()));
        return static_cast<ssize_t>(std::min(size, boot_id.size()));
      }
      struct stat status {};
      if (__real_fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0) return failing(ESTALE);
      return __real_read(file, bytes, size);
    };
    if (locks == Locks::per_client) {
      faults.flock = [client](int file, int operation) { return lock_for_client(client, file, operation); };
    }
  }

 private:
  std::string ask() {
    Engine own = engine(cache_folder());
    std::vector<std::shared_ptr<Kernel>> kernels(kThreads);
    {
      std::vector<std::jthread> threads;
      for (auto& kernel : kernels) threads.emplace_back([&] { kernel = own.get(source_); });
    }
    for (const auto& kernel : kernels)
      if (kernel->artifact().cubin.size() != source_.template_text.size()) return "a kernel differs";
    const auto lines = lines_.all();
    return lines.empty() ? "" : lines.front();
  }
};

TEST_F(DiskCacheNetworkTest, WithSharedLocksAllClientsMakeOneCompile) {
  ask_from_all(Locks::shared);
  EXPECT_EQ(compiler_->compiles(), 1u);
  EXPECT_THAT(cache_files(), SizeIs(1)) << "the entry, and no lock or staging file";
}

TEST_F(DiskCacheNetworkTest, WithLocksPerClientEachClientMakesOneCompileAtMost) {
  ask_from_all(Locks::per_client);
  EXPECT_GE(compiler_->compiles(), 1u);
  EXPECT_LE(compiler_->compiles(), static_cast<std::size_t>(kClients));
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), SizeIs(1));
}

/// What another client is writing, or has locked, looks free to this client.
TEST_F(DiskCacheNetworkTest, WithLocksPerClientTheFilesOfAnotherClientStay) {
  ClientView view(cache_folder());
  connect(view, 0, Locks::per_client);
  const DiskCache cache(cache_folder(), lines_.sink());
  ASSERT_TRUE(cache.publish(artifact_));
  const std::string entry = entry_of(artifact_).string();
  const std::string id = artifact_id(artifact_.key, artifact_.compiler);
  const fs::path folder = entry_of(artifact_).parent_path();
  const fs::path theirs[] = {entry + ".2.77.0.1.staging", folder / (id + ".machine2.lock")};
  const fs::path ours[] = {entry + ".1.77.0.1.staging", folder / (id + ".machine1.lock")};
  for (const auto& file : theirs) test::write_whole(file, "");
  for (const auto& file : ours) test::write_whole(file, "");
  ASSERT_TRUE(cache.publish(artifact_));
  for (const auto& file : theirs) EXPECT_TRUE(fs::exists(file)) << file;
  for (const auto& file : ours) EXPECT_FALSE(fs::exists(file)) << file;
  for (const auto& file : theirs) fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(cache.publish(artifact_));
  for (const auto& file : theirs) EXPECT_FALSE(fs::exists(file)) << file;
}

/// The entry is replaced between its opening and its reading.
TEST_F(DiskCacheNetworkTest, AnEntryThatAnotherClientReplacedIsReadAgain) {
  const DiskCache cache(cache_folder(), lines_.sink());
  ASSERT_TRUE(cache.publish(artifact_));
  int failures = 1;
  faults.read = [&](int file, void* bytes, std::size_t size) -> ssize_t {
    return failures-- > 0 ? failing(ESTALE) : __real_read(file, bytes, size);
  };
  EXPECT_TRUE(cache.find(test::of_any(artifact_.key)));
  EXPECT_THAT(lines_.all(), IsEmpty());
  failures = 2;
  EXPECT_FALSE(cache.find(test::of_any(artifact_.key)));
  EXPECT_THAT(lines_.all(), SizeIs(1)) << "the entry stays, and the request goes on without it";
}

TEST_F(DiskCacheNetworkTest, ALockFileThatAnotherClientDeletedIsMadeAgain) {
  int failures = 1;
  faults.flock = [&](int file, int operation) {
    return operation != LOCK_UN && failures-- > 0 ? failing(ESTALE) : __real_flock(file, operation);
  };
  EXPECT_TRUE(DiskCache(cache_folder(), lines_.sink()).lock("id"));
  EXPECT_THAT(lines_.all(), IsEmpty());
}

}  // namespace
}  // namespace cubit::runtime
