// Finds the places where an NVRTC library may be installed.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace cubit::runtime {

/// Returns names for the dynamic loader and existing files, each file once, in order of preference: `folders`, the
/// loader's search path, and the machine's usual folders. A folder may be a CUDA toolkit, a folder of wheels (with
/// nvidia/<package>/lib) or a Python environment (with lib/python3.x/site-packages/nvidia/…).
std::vector<std::string> nvrtc_candidates(std::span<const std::string> folders);

}  // namespace cubit::runtime
