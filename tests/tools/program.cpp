#include "tests/tools/program.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/support/missing_nvrtc.hpp"

namespace cubit::tools::test {
namespace {

void redirect(const std::string& path, int flags, int descriptor) {
  const int file = ::open(path.c_str(), flags, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(126);
}

[[noreturn]] void become(const char* file, const std::vector<char*>& argv) {
  ::execv(file, argv.data());
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

/// Returns the exit code and the memory.
Result wait_for(pid_t child) {
  int status = 0;
  rusage usage{};
  if (::wait4(child, &status, 0, &usage) != child) throw std::runtime_error("wait4");
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .peak_bytes = usage.ru_maxrss * 1024,
          .out = {},
          .err = {}};
}

}  // namespace

Result Program::run(const std::vector<std::string>& arguments, const std::string& input) const {
  std::vector<std::string> words = {"cubit"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return start(CUBIT_PROGRAM, std::move(words), input);
}

Result Program::run_in_shell(const std::string& command, const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {"sh", "-c", command, CUBIT_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return start("/bin/sh", std::move(words), {});
}

Result Program::run_after(const std::function<void()>& before, const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {"cubit"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return start(CUBIT_PROGRAM, std::move(words), {}, before);
}

bool Program::has_compiler() const {
  const Result result = run({"explain", "stream_read", "--arch", "sm_80", "--json", "--cache-dir", ""});
  const bool has_one = result.exit_code == 0 && !result.json().contains("resources_unavailable");
  if (!has_one) tests::accept_missing_nvrtc(result.out + result.err);
  return has_one;
}

Result Program::start(const char* file, std::vector<std::string> words, const std::string& input,
                      const std::function<void()>& before) const {
  const std::string in = folder_.write("in", input);
  const std::string out = folder_.path("out");
  const std::string err = folder_.path("err");
  const std::vector<char*> argv = pointers(words);
  const std::string cache_dir = cache();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    redirect(in, O_RDONLY, STDIN_FILENO);
    redirect(out, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(err, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    ::setenv("CUBIT_CACHE_DIR", cache_dir.c_str(), 1);
    ::unsetenv("CUBIT_COMPILE");
    before();
    become(file, argv);
  }
  Result result = wait_for(child);
  result.out = read_file(out);
  result.err = read_file(err);
  return result;
}

}  // namespace cubit::tools::test
