// Launches kernels as operators do, below the public interface, on the CPU device for sm_90a.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "ops/operator.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "runtime/engine.hpp"
#include "tests/support/machine_nvrtc.hpp"

namespace cubit::tests {

/// A fixture that skips its tests without NVRTC.
class CpuLaunch : public ::testing::Test {
 protected:
  static runtime::Engine& engine() {
    static runtime::Engine instance(uncached_settings(), {});
    return instance;
  }

  void SetUp() override {
    try {
      engine().compiler();
    } catch (const Failure& failure) {
      accept_missing_nvrtc(failure.what());
      GTEST_SKIP() << "no NVRTC on this machine";
    }
    device_ = runtime::open_cpu_device("sm_90a");
  }
  void TearDown() override {
    for (void* memory : memory_) device_->release(memory);
  }

  std::shared_ptr<runtime::Kernel> prepare(const codegen::KernelSource& source) {
    auto kernel = engine().get(source);
    kernel->prepare(*device_);
    return kernel;
  }

  /// Allocates device memory that lives until the end of the test.
  void* allocate(std::size_t bytes) {
    memory_.push_back(device_->allocate(bytes));
    return memory_.back();
  }
  void* upload(const void* data, std::size_t bytes) {
    void* const memory = allocate(bytes);
    device_->copy_to_device(memory, data, bytes, nullptr);
    return memory;
  }

  std::shared_ptr<runtime::Device> device_;

 private:
  std::vector<void*> memory_;
};

}  // namespace cubit::tests
