// Finds the places where an NVRTC library may be installed.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace cubit::runtime {

/// A folder in which the user wants NVRTC to be found, and the variable that says so: "CUDA_HOME".
struct NamedFolder {
  std::string path = {};  ///< "" if the user named no folder
  std::string variable = {};
};

/// Returns the existing NVRTC files in `folder`, each file once.
std::vector<std::string> nvrtc_files_in(const std::string& folder);

/// Returns names for the dynamic loader and existing files, each file once, in order of preference: `folders`, the
/// loader's search path, and the machine's usual folders. A folder may be a CUDA toolkit, a folder of wheels (with
/// nvidia/<package>/lib) or a Python environment (with lib/python3.x/site-packages/nvidia/…).
std::vector<std::string> nvrtc_candidates(std::span<const std::string> folders);

}  // namespace cubit::runtime
