// Every environment variable that the library reads, read here.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cubit::runtime {

enum class CompilePolicy : int { allow = 0, never = 1 };

struct Settings {
  /// Folder of the disk cache. CUBIT_CACHE_DIR (set but empty: none), else $XDG_CACHE_HOME/cubit, else
  /// $HOME/.cache/cubit; empty: no disk cache.
  std::string cache_dir = {};
  /// NVRTC library file to load; CUBIT_NVRTC. Empty: search (see runtime/compiler/nvrtc.hpp).
  std::string nvrtc_path = {};
  /// Folders to search for NVRTC before the machine's usual ones: a toolkit, a virtual environment or a folder of
  /// NVIDIA's wheels. CUBIT_NVRTC_DIR, CUDA_HOME, CUDA_PATH, VIRTUAL_ENV, CONDA_PREFIX and $HOME/.local, those that are
  /// set.
  std::vector<std::string> nvrtc_folders = {};
  /// CUBIT_COMPILE=never forbids compilation.
  CompilePolicy compile_policy = CompilePolicy::allow;

  /// Throws Failure(invalid_argument) for a value that is not accepted. CUBIT_COMPILE is not read where the caller
  /// gives the policy.
  static Settings from_environment(std::optional<CompilePolicy> policy = std::nullopt);
};

}  // namespace cubit::runtime
