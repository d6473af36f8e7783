// Common parts of the runtime's tests: temporary folders, a compiler that counts, and child processes that report.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_source.hpp"
#include "runtime/cache/artifact.hpp"
#include "runtime/compiler/nvrtc.hpp"
#include "runtime/log.hpp"
#include "runtime/store.hpp"

namespace cubit::runtime::test {

/// A new empty folder that the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_whole(const std::filesystem::path& path);
void write_whole(const std::filesystem::path& path, std::string_view content);

/// All regular files below `folder` whose names end in `suffix`, sorted.
std::vector<std::filesystem::path> files_ending(const std::filesystem::path& folder, std::string_view suffix);

/// The end of a staging file's name that a process of this machine made.
std::string staging_suffix(int call = 0);

/// Collects log lines of `level` and above.
class Lines {
 public:
  explicit Lines(LogLevel level = LogLevel::warning) : level_(level) {}
  LogSink sink();
  std::vector<std::string> all() const;

 private:
  LogLevel level_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// A source that every NVRTC accepts. A different `text` makes a different source.
codegen::KernelSource small_source(std::string_view text = "first");

Artifact small_artifact(const codegen::KernelSource& source, const CompilerVersion& compiler = {13, 0, 88});

/// A request for the entry of one compiler, and one for the newest entry up to a major version.
inline StoreRequest of_compiler(const RequestKey& key, const CompilerVersion& compiler) {
  return {.key = key, .target = {}, .entry_point = {}, .exact = compiler};
}
inline StoreRequest of_any(const RequestKey& key, int newest_major = 0) {
  return {.key = key, .target = {}, .entry_point = {}, .newest_major = newest_major};
}

/// A compiler that makes cubins without NVRTC. It appends one byte to `count_file` for every compile, so that processes
/// can share the count. `during` runs inside each compile.
class CountingCompiler : public Compiler {
 public:
  explicit CountingCompiler(std::filesystem::path count_file,
                            std::function<void(const codegen::KernelSource&)> during = {});
  const CompilerVersion& version() const override { return version_; }
  Compiled compile(const codegen::KernelSource& source) const override;
  std::size_t compiles() const;

 private:
  CompilerVersion version_{13, 0, 88};
  std::filesystem::path count_file_;
  std::function<void(const codegen::KernelSource&)> during_;
};

/// A child process that runs `body` and ends without running destructors.
class Child {
 public:
  /// `body` returns a complaint, or "" if all is well.
  explicit Child(const std::function<std::string()>& body);
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  int process() const { return process_; }
  void kill();
  /// Returns the result of the body, or how the process died.
  std::string join();

 private:
  int process_ = -1;
  int pipe_ = -1;
};

/// A pipe on which all children wait. Closing the pipe in the parent starts all children at once.
class StartingGate {
 public:
  StartingGate();
  void wait_in_child();
  void open();

 private:
  int ends_[2];
};

/// Prefix of a child's result if this machine does not allow the experiment.
inline constexpr std::string_view kNotAllowedHere = "not allowed here: ";

/// Gives a child a private view of the mounts. Returns kNotAllowedHere + the reason if the system refuses.
std::string own_mounts();

}  // namespace cubit::runtime::test
