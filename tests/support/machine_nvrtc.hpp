// The machine's NVRTC for tests that look below the public surface. Tests find NVRTC exactly as the library does.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "runtime/compiler/load_nvrtc.hpp"
#include "runtime/dynamic_library.hpp"
#include "runtime/settings.hpp"
#include "tests/support/missing_nvrtc.hpp"

namespace cubit::tests {

/// The settings of an engine that finds the machine's NVRTC and has no disk cache.
inline runtime::Settings uncached_settings() {
  auto settings = runtime::Settings::from_environment();
  settings.cache_dir.clear();
  return settings;
}

/// The machine's NVRTC, or nullptr with the reason in `why`.
inline std::shared_ptr<const runtime::Compiler> machine_nvrtc(std::string& why) {
  try {
    const auto settings = runtime::Settings::from_environment();
    return runtime::load_nvrtc(settings.nvrtc_path, 0, settings.nvrtc_folders, settings.nvrtc_folder);
  } catch (const Failure& failure) {
    why = failure.what();
    accept_missing_nvrtc(why);
    return nullptr;
  }
}

/// NVRTC's library for tests that call its C functions, or nothing.
inline std::optional<runtime::DynamicLibrary> open_nvrtc_library() {
  try {
    const auto settings = runtime::Settings::from_environment();
    return runtime::open_nvrtc_library(settings.nvrtc_path, settings.nvrtc_folders, settings.nvrtc_folder);
  } catch (const Failure& failure) {
    accept_missing_nvrtc(failure.what());
    return std::nullopt;
  }
}

}  // namespace cubit::tests
