// Where an NVRTC library may be.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace cubit::runtime {

/// Names for the loader and files that exist, each file once, in order of preference: `folders`, the loader's own path,
/// the machine's usual folders. A folder is a toolkit, a folder of wheels (holding nvidia/<package>/lib) or a Python
/// environment (holding lib/python3.x/site-packages/nvidia/…).
std::vector<std::string> nvrtc_candidates(std::span<const std::string> folders);

}  // namespace cubit::runtime
