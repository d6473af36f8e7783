// An engine without a disk cache for tests of the CPU device, and a check whether it can compile.
#pragma once

#include <cubit/cubit.hpp>

#include "tests/support/missing_nvrtc.hpp"

namespace cubit::tests {

inline EngineOptions without_cache() {
  EngineOptions options;
  options.cache_dir = "";
  return options;
}

inline const Engine& engine() {
  static const Engine instance(without_cache());
  return instance;
}

/// False if this machine has no NVRTC.
inline bool can_compile() {
  try {
    engine().get("stream_read", "cpu:sm_80");
    return true;
  } catch (const Error& error) {
    if (error.code() != CUBIT_COMPILER_UNAVAILABLE) throw;
    accept_missing_nvrtc(error.what());
    return false;
  }
}

}  // namespace cubit::tests
