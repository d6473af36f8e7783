// Planted defects, one per mutant: the checker of the CPU device finds each, and nothing in what is healthy.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

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

/// Wavefronts of shared memory beyond the fewest possible.
std::uint64_t excess_wavefronts(const char* name) {
  const auto device = runtime::open_cpu_device(kArchitecture);
  device->watch({.memory = false, .counters = true});
  run_mutant(find_mutant(name), engine(), *device);
  std::uint64_t excess = 0;
  for (const std::string& launch : device->take_counters()) {
    const auto counted = nlohmann::json::parse(launch);
    for (const auto& site : counted.at("shared"))
      excess += site.at("wavefronts").get<std::uint64_t>() - site.at("ideal_wavefronts").get<std::uint64_t>();
  }
  return excess;
}

TEST(BankConflicts, AreCountedWhereTheyArePlanted) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  EXPECT_EQ(excess_wavefronts("healthy_rows"), 0);
  EXPECT_GT(excess_wavefronts("bank_conflicts"), 0);
}

}  // namespace
}  // namespace cubit::tests
