// Proves: a bundle is written as a whole or not at all. The program is killed before each of its calls that change a
// file, while it makes a bundle or replaces one. The file then holds the bytes from before or those of a run that was
// not killed. A write that fails in the middle, as on a full disk, leaves the bytes from before.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>

#include "runtime/bundle/writer.hpp"
#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

/// True before a call that changes a file or the name of one.
bool changes_a_file(const __ptrace_syscall_info& call) {
  if (call.op != PTRACE_SYSCALL_INFO_ENTRY) return false;
  if (call.entry.nr == SYS_openat) return (call.entry.args[2] & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0;
  constexpr long kChanging[] = {
      SYS_write,     SYS_pwrite64, SYS_writev,  SYS_fsync,  SYS_fdatasync, SYS_ftruncate, SYS_fallocate, SYS_renameat,
      SYS_renameat2, SYS_unlinkat, SYS_mkdirat, SYS_linkat, SYS_fchmod,    SYS_fchmodat,  SYS_utimensat,
#ifdef SYS_rename  // older names, which newer architectures lack
      SYS_rename,    SYS_unlink,   SYS_mkdir,   SYS_link,   SYS_chmod,     SYS_open,      SYS_creat,
#endif
  };
  return std::ranges::count(kChanging, static_cast<long>(call.entry.nr)) > 0;
}

[[noreturn]] void become_traced(Words words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  ::setenv("CUBIT_CACHE_DIR", "", 1);
  ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // the leak search traces the process as well
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(126);
  ::execv(CUBIT_PROGRAM, argv.data());
  ::_exit(127);
}

enum class End { killed, good, bad, not_allowed };

/// Runs the program, and kills it before its call number `last` that changes a file.
End run_and_kill(const Words& arguments, int last) {
  Words words = {"cubit"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const pid_t child = ::fork();
  if (child == 0) become_traced(words);
  int status = 0;
  int signal = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return End::not_allowed;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (int count = 0; ::ptrace(PTRACE_SYSCALL, child, nullptr, signal) == 0;) {
    ::waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? End::good : End::bad;
    const bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    signal = is_call ? 0 : WSTOPSIG(status);
    __ptrace_syscall_info call{};
    if (!is_call || ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) <= 0) continue;
    if (!changes_a_file(call) || ++count < last) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return End::killed;
  }
  return End::bad;
}

/// A bundle of made-up kernels, some of which do not compress, so that the file has several pages.
std::string bundle_of(int first, int count) {
  runtime::BundleWriter writer;
  for (int i = first; i < first + count; ++i) {
    runtime::Artifact artifact;
    artifact.key.bytes = runtime::content_hash("kernel " + std::to_string(i));
    artifact.compiler = {13, 0, 88};
    artifact.descriptor = "made_up:number=" + std::to_string(i);
    artifact.target = "sm_80";
    artifact.entry_point = "f";
    for (int block = 0; block < 500; ++block) {
      const auto bytes = runtime::content_hash(std::to_string(i) + ":" + std::to_string(block));
      for (const std::uint8_t byte : bytes) artifact.cubin.push_back(std::byte{byte});
    }
    writer.add(runtime::pack(artifact, "0.1.0"));
  }
  return writer.bytes();
}

class BundleKill : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return program_.folder().path(name); }

  /// Runs the command to its end, and kills it at every step after `before`. "output" holds the old or the new bytes
  /// after each kill, and the new ones after another run.
  void kill_at_every_step(const Words& command, const std::function<void()>& before) {
    before();
    const bool existed = std::filesystem::exists(file("output"));
    const std::string old_bytes = existed ? test::read_file(file("output")) : "";
    const test::Result whole = program_.run(command);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const std::string new_bytes = test::read_file(file("output"));
    ASSERT_NE(new_bytes, old_bytes);
    int kills = 0;
    for (End end = End::killed; end == End::killed; ++kills) {
      before();
      end = run_and_kill(command, kills + 1);
      if (end == End::not_allowed) GTEST_SKIP() << "this machine does not let a test trace a process";
      const bool exists = std::filesystem::exists(file("output"));
      const std::string bytes = exists ? test::read_file(file("output")) : "";
      EXPECT_TRUE(bytes == new_bytes || (bytes == old_bytes && exists == existed)) << "step " << kills;
      EXPECT_NE(end, End::bad) << "step " << kills;
      ASSERT_EQ(program_.run(command).exit_code, 0) << "step " << kills;
      EXPECT_EQ(test::read_file(file("output")), new_bytes) << "step " << kills;
      EXPECT_THAT(program_.folder().names(), Each(Not(HasSubstr(".tmp")))) << "step " << kills;
      ASSERT_LT(kills, 1000);
    }
    EXPECT_GE(kills, 4) << "the file is made, written, flushed and renamed";
  }

  Program program_;
  std::string one_ = program_.folder().write("one.cubit", bundle_of(0, 20));
  std::string two_ = program_.folder().write("two.cubit", bundle_of(20, 20));
};

TEST_F(BundleKill, AtEveryStepOfMakingABundle) {
  kill_at_every_step({"bundle", "merge", one_, two_, "--output", file("output")},
                     [&] { std::filesystem::remove(file("output")); });
}

TEST_F(BundleKill, AtEveryStepOfReplacingABundle) {
  kill_at_every_step({"bundle", "merge", one_, two_, "--output", file("output")},
                     [&] { program_.folder().write("output", bundle_of(0, 1)); });
}

TEST_F(BundleKill, AtEveryStepOfSigningABundle) {
  ASSERT_EQ(program_.run({"bundle", "keygen", "--output", file("key")}).exit_code, 0);
  kill_at_every_step({"bundle", "sign", file("output"), "--key", file("key.secret")},
                     [&] { program_.folder().write("output", bundle_of(0, 20)); });
}

/// The limit of a file's size ends a write in the middle, with an error of the operating system.
TEST_F(BundleKill, AWriteThatFailsLeavesTheOldBundle) {
  const std::string old_bytes = bundle_of(0, 1);
  program_.folder().write("output", old_bytes);
  const std::vector<std::string> before = program_.folder().names();
  const test::Result result = program_.run_in_shell("trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"",
                                                    {"bundle", "merge", one_, two_, "--output", file("output")});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, testing::AllOf(testing::HasSubstr("output"), testing::HasSubstr("File too large")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(test::read_file(file("output")), old_bytes);
  std::vector<std::string> after = program_.folder().names();
  for (const char* stream : {"in", "out", "err"}) std::erase(after, stream);  // of this run
  EXPECT_EQ(after, before) << "the staging file is deleted";
}

}  // namespace
}  // namespace cubit::tools
