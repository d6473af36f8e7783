// The fixture of the engine's tests: each test has its own cache folder and a compiler that counts its calls.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {

inline Failure failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure;
  }
  return {Status::ok, "nothing", "no failure was thrown"};
}

class EngineTest : public testing::Test {
 protected:
  Settings settings() const { return {.cache_dir = (folder_.path() / "cache").string()}; }
  std::shared_ptr<test::CountingCompiler> compiler(
      std::function<void(const codegen::KernelSource&)> during = {}) const {
    return std::make_shared<test::CountingCompiler>(folder_.path() / "count", std::move(during));
  }

  test::TemporaryFolder folder_;
  test::Lines lines_{LogLevel::info};
};

}  // namespace cubit::runtime
