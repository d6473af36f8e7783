// Proves: a cache folder and a bundle that were copied to another machine answer every request without a compiler. The
// copies have other paths and other times. The other machines are root file systems that hold the program, its
// libraries and the copy, and nothing else: one in a folder, and one in memory that is mounted read-only. The program
// runs there as another user.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

namespace fs = std::filesystem;
using test::Program;
using test::Result;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

constexpr int kNotAllowed = 77;      // exit code of a process that the system does not let enter another machine
constexpr uid_t kNewUser = 54321;    // who serves the kernels on the other machine
constexpr uid_t kThirdUser = 54322;  // a stranger on the other machine

/// Kernels that NVRTC compiles quickly: 3 for each of two architectures.
const Words kKernels = {"stream_read", "stream_copy", "merge", "--arch", "sm_80,sm_90a", "--json"};
constexpr std::size_t kKernelCount = 6;

/// What a process on the other machine has: a cache folder or a bundle.
struct Store {
  std::string folder;
  std::string bundle;
};
const Store kStores[] = {{"/kernels/cache", ""}, {"", "/kernels/ship.cubit"}};

/// Copies a file or folder and gives every copied file a time of its own, far from the time of the original.
void copy_with_other_times(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  fs::copy(from, to, fs::copy_options::recursive);
  const auto set = [time = fs::file_time_type::clock::now() - std::chrono::hours(24 * 365 * 10)](const fs::path& path) {
    fs::last_write_time(path, time);
  };
  if (fs::is_directory(to)) {
    for (const auto& item : fs::recursive_directory_iterator(to)) set(item.path());
  }
  set(to);
}

void change_owner(const fs::path& path, uid_t owner) {
  const auto change = [&](const fs::path& each) {
    if (::chown(each.c_str(), owner, owner) != 0) throw std::runtime_error("chown " + each.string());
  };
  change(path);
  if (!fs::is_directory(path)) return;
  for (const auto& item : fs::recursive_directory_iterator(path)) change(item.path());
}

/// The files that the loader maps to start the program, as ldd lists them.
std::vector<std::string> libraries() {
  const std::string command = std::string("ldd '") + CUBIT_PROGRAM + "'";
  FILE* output = ::popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t count = 0; output != nullptr && (count = fread(buffer, 1, sizeof buffer, output)) > 0;) {
    text.append(buffer, count);
  }
  if (output == nullptr || ::pclose(output) != 0) throw std::runtime_error("ldd failed");
  std::vector<std::string> paths;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.starts_with('/')) paths.push_back(word);
  }
  return paths;
}

/// Makes a root file system in `root`.
void make_root(const fs::path& root) {
  std::vector<std::string> files = libraries();
  files.emplace_back(CUBIT_PROGRAM);
  for (const std::string& file : files) {
    const fs::path copy = root / fs::path(file).relative_path();
    fs::create_directories(copy.parent_path());
    fs::copy_file(file, copy, fs::copy_options::overwrite_existing);
  }
  fs::create_directory(root / "proc");
}

void require(bool allowed, const char* what) {
  if (allowed) return;
  ::dprintf(STDERR_FILENO, "not allowed here: %s: %s", what, std::strerror(errno));
  ::_exit(kNotAllowed);
}

void write_map(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY);
  require(file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()), path);
  ::close(file);
}

/// Gives the process its own mounts. A user who is not root becomes kNewUser in a user namespace, where the user's
/// files belong to kNewUser too.
void own_mounts() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  require(::unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) == 0, "unshare");
  if (user != 0) {
    write_map("/proc/self/setgroups", "deny");
    write_map("/proc/self/uid_map", std::to_string(kNewUser) + " " + std::to_string(user) + " 1");
    write_map("/proc/self/gid_map", std::to_string(kNewUser) + " " + std::to_string(group) + " 1");
  }
  require(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mount");
}

/// Copies the root file system to memory, where it cannot be written. Returns the root of the copy.
fs::path copy_to_memory(const fs::path& root, bool is_root) {
  const fs::path memory = root / "proc";  // an empty folder
  require(::mount("none", memory.c_str(), "tmpfs", 0, "mode=755") == 0, "mount tmpfs");
  for (const auto& item : fs::directory_iterator(root)) {
    if (item.path() != memory) fs::copy(item.path(), memory / item.path().filename(), fs::copy_options::recursive);
  }
  fs::create_directory(memory / "proc");
  if (is_root) change_owner(memory / "kernels", kNewUser);
  require(::mount("none", memory.c_str(), nullptr, MS_REMOUNT | MS_RDONLY | MS_BIND, nullptr) == 0, "remount");
  return memory;
}

enum class Medium { folder, memory };

/// Makes `root` the root file system of this process, which becomes kNewUser.
void enter(const fs::path& root, Medium medium) {
  const bool is_root = ::geteuid() == 0;
  own_mounts();
  const fs::path there = medium == Medium::memory ? copy_to_memory(root, is_root) : root;
  // Sanitizers read /proc. The program does not need it.
  static_cast<void>(::mount("/proc", (there / "proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr));
  require(::chroot(there.c_str()) == 0 && ::chdir("/") == 0, "chroot");
  if (is_root) require(::setgroups(0, nullptr) == 0 && ::setgid(kNewUser) == 0 && ::setuid(kNewUser) == 0, "setuid");
}

/// A cache folder and a bundle that the first machine made, and copies of both in the root file system of another.
class OtherMachine : public testing::Test {
 protected:
  void SetUp() override {
    if (!program_.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
    Words words = {"compile", "--bundle", program_.folder().path("made.cubit")};
    words.insert(words.end(), kKernels.begin(), kKernels.end());
    const Result made = program_.run(words);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    fs::create_directory(root_);
    copy_with_other_times(program_.cache(), root_ / "kernels/cache");
    copy_with_other_times(program_.folder().path("made.cubit"), root_ / "kernels/ship.cubit");
  }

  /// Asks for `kernels` in a process that first calls `enter`, and that has one store and no compiler.
  Result ask(const std::function<void()>& enter, const Store& store, Words kernels = kKernels) const {
    kernels.insert(kernels.begin(), "compile");
    return program_.run_after(
        [&] {
          enter();
          ::setenv("CUBIT_CACHE_DIR", store.folder.c_str(), 1);
          ::setenv("CUBIT_BUNDLES", store.bundle.c_str(), 1);
          ::setenv("CUBIT_COMPILE", "never", 1);
          ::setenv("CUBIT_NVRTC", "/nowhere/libnvrtc.so", 1);
          for (const char* other : {"CUBIT_SYSTEM_CACHES", "CUBIT_PUBLIC_KEYS", "CUBIT_CACHE_TRUST"}) ::unsetenv(other);
        },
        kernels);
  }
  static void expect_hits(const Result& result) {
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json kernels = result.json();
    EXPECT_EQ(kernels.size(), kKernelCount);
    for (const auto& kernel : kernels) EXPECT_EQ(kernel.at("compiled"), false) << kernel;
  }
  static void expect_miss(const Result& result, const std::string& reason) {
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr(reason));
  }

  Program program_;
  fs::path root_ = program_.folder().path("root");
};

TEST_F(OtherMachine, CopiesAtAnotherPathWithOtherTimesAnswerEveryRequest) {
  for (const Store& store : kStores) {
    const auto at = [&](const std::string& path) { return path.empty() ? path : root_.string() + path; };
    const Store here = {at(store.folder), at(store.bundle)};
    const auto stay = [] {};
    expect_hits(ask(stay, here));
    expect_miss(ask(stay, here, {"kv_append", "--arch", "sm_80"}), "no cache holds the kernel");
  }
}

TEST_F(OtherMachine, AnotherUserOfAnotherRootFileSystemGetsEveryKernel) {
  make_root(root_);
  for (const Medium medium : {Medium::folder, Medium::memory}) {
    const auto there = [&] { enter(root_, medium); };
    for (const Store& store : kStores) {
      if (::geteuid() == 0) change_owner(root_ / "kernels", kNewUser);
      const Result result = ask(there, store);
      if (result.exit_code == kNotAllowed) GTEST_SKIP() << result.err;
      expect_hits(result);
      expect_miss(ask(there, store, {"kv_append", "--arch", "sm_80"}), "no cache holds the kernel");
    }
  }
}

/// A copy that kept its owner belongs to a stranger on the other machine, until somebody makes it the new user's.
TEST_F(OtherMachine, ACopyOfAStrangerIsUsedOnceItBelongsToTheNewUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to another user";
  make_root(root_);
  const auto there = [&] { enter(root_, Medium::folder); };
  for (const Store& store : kStores) {
    change_owner(root_ / "kernels", kThirdUser);
    const Result refused = ask(there, store);
    if (refused.exit_code == kNotAllowed) GTEST_SKIP() << refused.err;
    expect_miss(refused, "it belongs to user 54322");
    change_owner(root_ / "kernels", kNewUser);
    expect_hits(ask(there, store));
  }
}

}  // namespace
}  // namespace cubit::tools
