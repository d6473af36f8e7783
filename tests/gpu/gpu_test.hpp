// The fixture of tests that need a GPU.
//
// Run all GPU tests by one process: build/release/tests/gpu/cubit_gpu_tests. The process compiles the kernels of all
// suites on all processors while it runs the tests (see suite_kernels.hpp).
//
// `ctest -L gpu` runs every test in a process of its own. Every process prepares all kernels of the test's suite. The
// first process of a suite compiles the kernels, and the others find them in the disk cache, but every process starts
// CUDA and loads the kernels again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cubit/cubit.hpp>

#include "base/parallel.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/gpu/suite_kernels.hpp"

namespace cubit::tests {

/// Skips where there is no GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = std::make_unique<Device>("cuda:0");
    } catch (const Error& error) {
      GTEST_SKIP() << "no GPU: " << error.what();
    }
  }

  const Device& device() const { return *device_; }
  std::string architecture() const { return architecture_of(device()); }
  /// Fails the test if its suite has not declared the kernel: see suite_kernels.hpp.
  Kernel kernel(const std::string& descriptor) const {
    EXPECT_TRUE(is_declared(descriptor)) << descriptor << " is missing in the list of the suite's SuiteKernels";
    const Kernel result = gpu_engine().get(descriptor, architecture());
    result.prepare(device());
    return result;
  }

  /// Launches once and waits; checks that the workspace is left as documented and nothing around the outputs is
  /// touched.
  void launch(const Kernel& kernel, DeviceCase& launched, cubit_stream stream = nullptr) const {
    const void* arguments = launched.arguments();
    const std::size_t bytes = kernel.workspace(arguments, &device());
    GuardedBuffer workspace(device(), bytes, 0);
    launch_with(kernel, arguments, workspace, stream);
    launched.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
    expect_counters_zero(workspace);
  }
  void launch_with(const Kernel& kernel, const void* arguments, const GuardedBuffer& workspace,
                   cubit_stream stream = nullptr) const {
    kernel.launch(arguments, {.device = &device(),
                              .stream = stream,
                              .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                              .workspace_bytes = workspace.bytes()});
    device().synchronise(stream);
  }
  static void expect_counters_zero(const GuardedBuffer& workspace) {
    constexpr std::size_t kCounterBytes = 16 * 1024;
    const auto host = workspace.download(kCounterBytes);
    for (std::size_t i = 0; i < host.size(); ++i) ASSERT_EQ(host[i], 0) << "counter byte " << i;
  }

  /// Checks one launch, and returns its error.
  double expect_good(const std::string& descriptor, const Problem::Numbers& sizes, std::uint64_t seed = 1) const {
    return expect_good_of({descriptor}, Problem::random(descriptor, sizes, seed));
  }
  /// Checks kernels whose descriptors differ in their family alone, and returns the largest error. The data are made,
  /// and the reference is computed, once.
  double expect_good(const std::vector<std::string>& descriptors, const Problem::Numbers& sizes) const {
    return descriptors.empty() ? 0 : expect_good_of(descriptors, Problem::random(descriptors.front(), sizes, 1));
  }
  double expect_good_of(const std::vector<std::string>& descriptors, const Problem& problem) const {
    DeviceCase launched(device(), problem);
    double largest = 0;
    for (const std::string& descriptor : descriptors) {
      SCOPED_TRACE(descriptor);
      if (&descriptor != &descriptors.front()) launched.reset_outputs();
      launch(kernel(descriptor), launched);
      const auto result = launched.compare(problem);
      EXPECT_LE(result.error, result.tolerance) << result.worst;
      largest = std::max(largest, result.error);
    }
    const std::lock_guard lock(worst_mutex_);
    worst_ = std::max(worst_, largest);
    return largest;
  }
  /// The largest error that expect_good has seen, for the log.
  double worst() const {
    const std::lock_guard lock(worst_mutex_);
    return worst_;
  }

  /// Calls body(i) for every i below `count` on a few threads. Much of a case runs on one processor or on the GPU; the
  /// other processors make the data and references of other cases meanwhile. No body may capture launches.
  template <class Body>
  static void for_each_case(std::size_t count, const Body& body) {
    constexpr std::size_t kCasesAtOnce = 16;
    std::atomic<std::size_t> next{0};
    on_threads(kCasesAtOnce, [&](std::size_t) {
      for (std::size_t i = next++; i < count && !HasFatalFailure(); i = next++) body(i);
    });
  }
  template <class Item, class Body>
  static void for_each_case(const std::vector<Item>& items, const Body& body) {
    for_each_case(items.size(), [&](std::size_t i) { body(items[i]); });
  }

 private:
  std::unique_ptr<Device> device_;
  mutable std::mutex worst_mutex_;
  mutable double worst_ = 0;
};

}  // namespace cubit::tests
