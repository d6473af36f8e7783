// The real cubit program as a subprocess.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/support.hpp"

namespace cubit::tools::test {

struct Result {
  int exit_code = -1;  ///< 128 + signal if it was killed
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Runs with a kernel cache of its own, which later runs through the same object find again.
class Program {
 public:
  Result run(const std::vector<std::string>& arguments, const std::string& input = {}) const;
  /// A shell's `command`, in which "$0" is the program and "$@" the arguments: for redirections and variables.
  Result run_in_shell(const std::string& command, const std::vector<std::string>& arguments) const;
  /// False where there is no NVRTC.
  bool has_compiler() const;
  const TemporaryFolder& folder() const { return folder_; }
  std::string cache() const { return folder_.path("cache"); }

 private:
  Result start(const char* file, std::vector<std::string> words, const std::string& input) const;

  TemporaryFolder folder_;
};

}  // namespace cubit::tools::test
