// Reads the library's environment variables, in this one place.
#include "runtime/settings.hpp"

#include <cstdlib>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string chosen_cache_dir() {
  // A variable that is set to "" disables the disk cache.
  if (const char* chosen = std::getenv("CUBIT_CACHE_DIR")) return chosen;
  // The XDG base directory specification says that a relative path is invalid and must be ignored.
  const std::string xdg = variable("XDG_CACHE_HOME");
  if (xdg.starts_with('/')) return xdg + "/cubit";
  const std::string home = variable("HOME");
  return home.empty() ? std::string() : home + "/.cache/cubit";
}

NamedFolder named_nvrtc_folder() {
  for (const char* name : {"CUBIT_NVRTC_DIR", "CUDA_HOME", "CUDA_PATH"}) {
    if (std::string folder = variable(name); !folder.empty()) return {std::move(folder), name};
  }
  return {};
}

std::vector<std::string> usual_nvrtc_folders() {
  std::vector<std::string> folders;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (std::string folder = variable(name); !folder.empty()) folders.push_back(std::move(folder));
  }
  if (const std::string home = variable("HOME"); !home.empty()) folders.push_back(home + "/.local");
  return folders;
}

CompilePolicy chosen_compile_policy() {
  const std::string value = variable("CUBIT_COMPILE");
  if (value.empty() || value == "allow") return CompilePolicy::allow;
  if (value == "never") return CompilePolicy::never;
  throw Failure(Status::invalid_argument, "CUBIT_COMPILE=" + value, "this is not a compile policy",
                "use allow or never");
}

}  // namespace

Settings Settings::from_environment(std::optional<CompilePolicy> policy) {
  return {.cache_dir = chosen_cache_dir(),
          .nvrtc_path = variable("CUBIT_NVRTC"),
          .nvrtc_folder = named_nvrtc_folder(),
          .nvrtc_folders = usual_nvrtc_folders(),
          .compile_policy = policy ? *policy : chosen_compile_policy()};
}

}  // namespace cubit::runtime
