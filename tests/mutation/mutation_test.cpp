// Planted defects, one per mutant: the checker of the CPU device finds each, and nothing in what is healthy.
#include <gmock/gmock.h>

#include "base/error.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "tests/mutation/mutants.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kArchitecture = "sm_90a";

runtime::Engine& engine() {
  static runtime::Engine instance(runtime::Settings{}, {});
  return instance;
}

bool can_compile() {
  try {
    engine().compiler();
    return true;
  } catch (const Failure&) {
    return false;
  }
}

class Mutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(Mutants, AreFound) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Mutant& mutant = GetParam();
  const auto device = runtime::open_cpu_device(kArchitecture);
  device->watch({.memory = true, .counters = false});
  std::string report;
  try {
    run_mutant(mutant, engine(), *device);
  } catch (const Failure& failure) {
    if (failure.status() != Status::device_error) throw;
    report = failure.what();
  }
  if (*mutant.found == 0) {
    EXPECT_EQ(report, "");
  } else {
    EXPECT_THAT(report, ::testing::HasSubstr(mutant.found));
  }
}

INSTANTIATE_TEST_SUITE_P(, Mutants, ::testing::ValuesIn(mutants().begin(), mutants().end()),
                         [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace cubit::tests
