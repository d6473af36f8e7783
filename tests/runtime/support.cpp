// Implements the common parts of the runtime's tests.
#include "tests/runtime/support.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "codegen/kernel_source.hpp"
#include "runtime/cache/files.hpp"
#include "runtime/settings.hpp"

namespace cubit::runtime::test {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "cubit-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_whole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_whole(const fs::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

std::string staging_suffix(int call) { return fmt::format(".{}.1.{}.3.staging", this_machine(), call); }

std::vector<fs::path> files_ending(const fs::path& folder, std::string_view suffix) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().native().ends_with(suffix)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

LogSink Lines::sink() {
  return [this](LogLevel level, std::string_view line) {
    if (level < level_) return;
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  };
}

std::vector<std::string> Lines::all() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

codegen::KernelSource small_source(std::string_view text) {
  codegen::KernelSource source;
  source.descriptor = fmt::format("small:{}", text);
  source.template_name = "small.cuh";
  source.template_text = fmt::format(
      "// {}\n#include \"plan.cuh\"\n"
      "extern \"C\" __global__ void small(float* x) {{ x[threadIdx.x] += kAddend; }}\n",
      text);
  source.headers = {{"plan.cuh", "constexpr float kAddend = 1;\n"}};
  source.options = codegen::default_options();
  source.target = "sm_90a";
  source.entry_point = "small";
  source.launch = {.threads = 32, .dynamic_shared_memory = 0};
  return source;
}

Artifact small_artifact(const codegen::KernelSource& source, const CompilerVersion& compiler) {
  return {.key = request_key(source),
          .compiler = compiler,
          .descriptor = source.descriptor,
          .target = source.target,
          .entry_point = source.entry_point,
          .resources = {10, 1, 2, 3, 4, 5},
          .compile_milliseconds = 12.5,
          .cubin = {std::byte{1}, std::byte{2}, std::byte{3}}};
}

CountingCompiler::CountingCompiler(fs::path count_file, std::function<void(const codegen::KernelSource&)> during)
    : count_file_(std::move(count_file)), during_(std::move(during)) {
  const int file = ::open(count_file_.c_str(), O_WRONLY | O_CREAT, 0600);
  if (file < 0) throw std::runtime_error("cannot make " + count_file_.string());
  ::close(file);
}

Compiled CountingCompiler::compile(const codegen::KernelSource& source) const {
  // Appending one byte is atomic between processes.
  const int file = ::open(count_file_.c_str(), O_WRONLY | O_APPEND);
  const bool counted = file >= 0 && ::write(file, "x", 1) == 1;
  if (file >= 0) ::close(file);
  if (!counted) throw std::runtime_error("the compile could not be counted");
  if (during_) during_(source);
  Compiled compiled;
  compiled.cubin.resize(source.template_text.size());
  std::memcpy(compiled.cubin.data(), source.template_text.data(), source.template_text.size());
  compiled.resources.registers = 10;
  compiled.milliseconds = 1;
  return compiled;
}

std::size_t CountingCompiler::compiles() const { return fs::file_size(count_file_); }

Child::Child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  process_ = ::fork();
  if (process_ < 0) throw std::runtime_error("fork failed");
  if (process_ > 0) {
    ::close(ends[1]);
    pipe_ = ends[0];
    return;
  }
  ::close(ends[0]);
  std::string complaint;
  try {
    complaint = body();
  } catch (const std::exception& error) {
    complaint = fmt::format("it threw: {}", error.what());
  }
  const ssize_t written = ::write(ends[1], complaint.data(), complaint.size());
  ::_exit(written == static_cast<ssize_t>(complaint.size()) ? 0 : 1);
}

Child::Child(Child&& other) noexcept
    : process_(std::exchange(other.process_, -1)), pipe_(std::exchange(other.pipe_, -1)) {}

Child::~Child() {
  if (process_ <= 0) return;
  kill();
  static_cast<void>(join());
}

void Child::kill() { ::kill(process_, SIGKILL); }

std::string Child::join() {
  std::string said;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(pipe_, buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(std::exchange(pipe_, -1));
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("{}died of signal {}", said, WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("{}ended with status {}", said, WEXITSTATUS(status));
  return said;
}

std::string own_mounts() {
  // Root needs no user namespace. Other users may be allowed to create one.
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return std::string(kNotAllowedHere) + "unshare: " + std::strerror(errno);
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return std::string(kNotAllowedHere) + "mount: " + std::strerror(errno);
  }
  return {};
}

StartingGate::StartingGate() {
  if (::pipe(ends_) != 0) throw std::runtime_error("pipe failed");
}

void StartingGate::wait_in_child() {
  ::close(ends_[1]);
  char byte = 0;
  while (::read(ends_[0], &byte, 1) > 0) continue;
}

void StartingGate::open() { ::close(ends_[1]); }

}  // namespace cubit::runtime::test
