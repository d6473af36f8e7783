// Common parts of the tests with the fake driver: a fresh driver per test, and a kernel to load.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.hpp"
#include "runtime/cuda/driver.hpp"
#include "tests/runtime_cuda/fake_driver.hpp"

namespace cubit::fake {

/// The library's controls. The library is never closed.
inline Controls& controls() {
  static Controls* const instance = [] {
    void* const library = dlopen(CUBIT_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<decltype(&cubit_fake_controls)>(dlsym(library, "cubit_fake_controls"))();
  }();
  return *instance;
}

/// Makes a machine with `devices` fake GPUs of compute capability 9.0.
inline void plug_in(int devices) {
  controls().reset(devices);
  runtime::cuda::use_driver_library(CUBIT_FAKE_DRIVER);
}

/// Runs `action`, which must throw a Failure, and returns it.
template <class Action>
Failure failure_of(Action action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Status::ok, "", ""};
}

}  // namespace cubit::fake
