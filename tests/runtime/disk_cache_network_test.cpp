// The disk cache on a network file system. Each process stands for a client, whose view of the server's files is late:
//
//   - A name that another client has made is unknown to a client until the client opens the folder or changes the
//     folder itself. (NFS keeps the attributes and the missing names of a folder for seconds.)
//   - A file that another client has replaced gives ESTALE when it is read, and now and then a path gives ESTALE.
//
// All clients share the locks, as with NFS of version 4.
#include <sys/file.h>

#include <chrono>
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
  /// Fails the opening of a path: -1 with errno set.
  int open(const fs::path& path) {
    if (!path.native().starts_with(server_.native())) return 0;
    const std::lock_guard guard(mutex_);
    if (++opened_ % 7 == 0) return failing(ESTALE);
    // What is made while the client reads the folder is in its list, too.
    constexpr milliseconds kReading(5);
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

  fs::path server_;
  std::mutex mutex_;
  std::map<fs::path, std::chrono::steady_clock::time_point> read_;
  std::set<fs::path> known_;
  int opened_ = 0;
};

class DiskCacheNetworkTest : public DiskCacheFaultTest {
 protected:
  static constexpr int kClients = 12;
  static constexpr int kThreads = 3;  // of a client

  /// Every thread of every client requests the kernel.
  void ask_from_all() {
    test::StartingGate gate;
    std::vector<test::Child> children;
    for (int client = 0; client < kClients; ++client) {
      children.emplace_back([&]() -> std::string {
        ClientView view(cache_folder());
        connect(view);
        gate.wait_in_child();
        return ask();
      });
    }
    gate.open();
    for (test::Child& child : children) EXPECT_EQ(child.join(), "");
  }

 private:
  static void connect(ClientView& view) {
    faults.open = [&view](const char* path) { return view.open(path); };
    faults.opendir = [&view](const char* path) { view.learn(path); };
    faults.rename = [&view](const char* from, const char* to) {
      const int result = __real_rename(from, to);
      view.learn(fs::path(to).parent_path());
      return result;
    };
    faults.read = [](int file, void* bytes, std::size_t size) -> ssize_t {
      struct stat status {};
      if (__real_fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0) return failing(ESTALE);
      return __real_read(file, bytes, size);
    };
  }

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

 protected:
  DiskCacheNetworkTest() {
    // Long enough that every client asks before the first compile ends. The count does not depend on the time.
    compiler_ = std::make_shared<test::CountingCompiler>(
        folder_.path() / "count", [](const codegen::KernelSource&) { std::this_thread::sleep_for(milliseconds(200)); });
  }
};

TEST_F(DiskCacheNetworkTest, WithSharedLocksAllClientsMakeOneCompile) {
  ask_from_all();
  EXPECT_EQ(compiler_->compiles(), 1u);
  EXPECT_THAT(test::files_ending(cache_folder(), ""), SizeIs(1)) << "the entry, and no lock or staging file";
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
