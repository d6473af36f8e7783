// Searches for NVRTC by folder patterns. Walking whole folders would be slow: a toolkit has thousands of them.
#include "runtime/compiler/nvrtc_search.hpp"

#include <glob.h>

#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace cubit::runtime {
namespace {

/// Patterns below a toolkit, a wheel folder or a Python environment. Debian's own Python uses dist-packages.
constexpr const char* kPatterns[] = {
    "/libnvrtc.so*",
    "/lib64/libnvrtc.so*",
    "/lib/libnvrtc.so*",
    "/targets/*/lib/libnvrtc.so*",
    "/nvidia/*/lib/libnvrtc.so*",
    "/*/nvidia/*/lib/libnvrtc.so*",
    "/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so*",
    "/lib/python3*/dist-packages/nvidia/*/lib/libnvrtc.so*",
};
constexpr const char* kLoaderNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr const char* kUsualFolders[] = {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/usr/local", "/usr"};

std::vector<std::string> expand(const std::string& pattern) {
  glob_t matches{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    files.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  globfree(&matches);
  return files;
}

/// Escapes pattern characters, because a folder that the user named is a path and not a pattern.
std::string literal(const std::string& folder) {
  std::string pattern;
  for (const char c : folder) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

class Candidates {
 public:
  void add_folder(const std::string& folder_pattern) {
    for (const char* pattern : kPatterns) {
      for (std::string& file : expand(folder_pattern + pattern)) add_file(std::move(file));
    }
  }
  void add_name(const char* name) { names_.emplace_back(name); }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  /// libnvrtc.so, .so.13 and .so.13.0.88 are links to one file.
  void add_file(std::string file) {
    std::error_code error;
    const auto real = std::filesystem::canonical(file, error);
    if (!error && seen_.insert(real.string()).second) names_.push_back(std::move(file));
  }

  std::vector<std::string> names_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<std::string> nvrtc_files_in(const std::string& folder) {
  Candidates candidates;
  candidates.add_folder(literal(folder));
  return candidates.take();
}

std::vector<std::string> nvrtc_candidates(std::span<const std::string> folders) {
  Candidates candidates;
  for (const std::string& folder : folders) candidates.add_folder(literal(folder));
  for (const char* name : kLoaderNames) candidates.add_name(name);
  for (const char* folder : kUsualFolders) candidates.add_folder(folder);
  return candidates.take();
}

}  // namespace cubit::runtime
