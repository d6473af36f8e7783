// Loads NVRTC from the folder that the user named.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/compiler/nvrtc.hpp"
#include "runtime/compiler/nvrtc_search.hpp"

namespace cubit::runtime {

/// Like load_nvrtc() of nvrtc.hpp, but if `path` is "" and `named` is a folder, only the files in this folder are
/// tried. Without a usable library there, throws Failure(compiler_unavailable) that names the folder and the variable.
std::shared_ptr<const Compiler> load_nvrtc(const std::string& path, int driver_major,
                                           std::span<const std::string> folders, const NamedFolder& named);

/// Like open_nvrtc_library() of nvrtc.hpp, with the same rule for `named`.
DynamicLibrary open_nvrtc_library(const std::string& path, std::span<const std::string> folders,
                                  const NamedFolder& named);

}  // namespace cubit::runtime
