// The one place that decides whether a test without NVRTC is skipped or fails.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace cubit::tests {

/// A test calls this function before it skips for want of NVRTC; `why` is what the search for NVRTC answered. The
/// function throws, so that the test fails, where CUBIT_EXPECT_NVRTC is set: set-up has provided NVRTC there.
inline void accept_missing_nvrtc(const std::string& why) {
  const char* const expected = std::getenv("CUBIT_EXPECT_NVRTC");
  if (expected == nullptr || *expected == 0) return;
  throw std::runtime_error("set-up has provided NVRTC, but this test does not find NVRTC: " + why);
}

}  // namespace cubit::tests
