// Settings from the environment. All environment variables that the library reads are read here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/compiler/nvrtc_search.hpp"

namespace cubit::runtime {

enum class CompilePolicy : int { allow = 0, never = 1 };

/// What the environment decides. An embedding program may fill in the fields itself.
struct Settings {
  /// Folder of the disk cache; "" means no disk cache. The first variable that is set decides: CUBIT_CACHE_DIR (which
  /// may be empty), $XDG_CACHE_HOME/cubit, $HOME/.cache/cubit.
  std::string cache_dir = {};
  /// NVRTC library file to load (CUBIT_NVRTC). "" searches for NVRTC; see runtime/compiler/nvrtc.hpp.
  std::string nvrtc_path = {};
  /// The folder that the user named for NVRTC: the first of CUBIT_NVRTC_DIR, CUDA_HOME and CUDA_PATH that is set. No
  /// other folder is searched then. A folder is a toolkit, a virtual environment or a folder of NVIDIA's wheels.
  NamedFolder nvrtc_folder = {};
  /// Folders to search for NVRTC before the machine's usual folders: VIRTUAL_ENV and CONDA_PREFIX, if set, and
  /// $HOME/.local.
  std::vector<std::string> nvrtc_folders = {};
  /// CUBIT_COMPILE=never forbids compilation.
  CompilePolicy compile_policy = CompilePolicy::allow;

  /// Reads the environment. Throws Failure(invalid_argument) for a value that is not accepted. CUBIT_COMPILE is not
  /// read if the caller gives `policy`.
  static Settings from_environment(std::optional<CompilePolicy> policy = std::nullopt);
};

}  // namespace cubit::runtime
