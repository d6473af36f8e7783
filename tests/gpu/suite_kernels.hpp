// The kernels that each suite of GPU tests launches, compiled by all processors while tests run.
//
// NVRTC takes about a second per kernel. Tests that each asked for the next kernel would keep one processor busy and
// the GPU waiting, so every suite declares its list, and the test environment prepares the lists of all suites that
// run, suite by suite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <cubit/cubit.hpp>

namespace cubit::tests {

/// Declares the kernels of a suite: a namespace-scope constant beside the suite's tests.
class SuiteKernels {
 public:
  /// The descriptors for a device of `architecture`. Called once, after a GPU has been found.
  using List = std::function<std::vector<std::string>(const std::string& architecture)>;
  SuiteKernels(std::string suite, List list);
};

/// The engine of all GPU tests.
const Engine& gpu_engine();

/// "sm_90a", as the device describes itself.
std::string architecture_of(const Device& device);

/// Whether the test that is running belongs to a suite that declared `descriptor`.
bool is_declared(const std::string& descriptor);

}  // namespace cubit::tests
