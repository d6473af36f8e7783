// Runs the real cubit program as a subprocess.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/support.hpp"

namespace cubit::tools::test {

struct Result {
  int exit_code = -1;   ///< 128 + signal if it was killed
  long peak_bytes = 0;  ///< of resident memory
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Runs with its own kernel cache, which later runs of the same object share.
class Program {
 public:
  Result run(const std::vector<std::string>& arguments, const std::string& input = {}) const;
  /// Runs a shell `command` with redirections and variables; "$0" is the program and "$@" are the arguments.
  Result run_in_shell(const std::string& command, const std::vector<std::string>& arguments) const;
  /// Runs in a process that first calls `before`, which may change the variables, the user or the root folder.
  Result run_after(const std::function<void()>& before, const std::vector<std::string>& arguments) const;
  /// False if there is no NVRTC.
  bool has_compiler() const;
  const TemporaryFolder& folder() const { return folder_; }
  std::string cache() const { return folder_.path("cache"); }

 private:
  Result start(
      const char* file, std::vector<std::string> words, const std::string& input,
      const std::function<void()>& before = [] {}) const;

  TemporaryFolder folder_;
};

}  // namespace cubit::tools::test
