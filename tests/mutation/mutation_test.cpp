// Planted defects, one per mutant: the checker of the CPU device must find each defect, and must find nothing in
// healthy kernels. The verdicts about compute-sanitizer are results from an H200.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "ops/operator.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "tests/mutation/mutants.hpp"
#include "tests/support/machine_nvrtc.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kArchitecture = "sm_90a";

runtime::Engine& engine() {
  static runtime::Engine instance(uncached_settings(), {});
  return instance;
}

bool can_compile() {
  try {
    engine().compiler();
    return true;
  } catch (const Failure& failure) {
    accept_missing_nvrtc(failure.what());
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

TEST(MutantTable, ChangesEveryOperator) {
  for (const ops::Operator* op : ops::operators()) {
    const auto changes = [&](const Mutant& mutant) {
      const std::string_view kernel = mutant.kernel;
      return *mutant.file != 0 && kernel.substr(0, kernel.find(':')) == op->name();
    };
    EXPECT_TRUE(std::any_of(mutants().begin(), mutants().end(), changes)) << "no mutant changes " << op->name();
  }
}

/// Wavefronts of shared memory beyond the smallest possible number.
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

constexpr const char* kTools[] = {"racecheck", "memcheck", "initcheck"};

/// Maps each mutant to the numbers that kTools counted; "-" means that a tool was not run or hung.
std::map<std::string, std::array<std::string, 3>> sanitizer_table() {
  std::map<std::string, std::array<std::string, 3>> table;
  std::ifstream file(CUBIT_SANITIZER_TABLE);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line);
    std::string name;
    std::getline(columns, name, '\t');
    for (std::string& counted : table[name]) std::getline(columns, counted, '\t');
  }
  return table;
}

/// A report that a tool also makes for the healthy kernel is not a finding.
TEST(ComputeSanitizer, FoundWhatTheVerdictsSay) {
  const auto table = sanitizer_table();
  for (const Mutant& mutant : mutants()) {
    const std::string_view verdict = mutant.sanitizer;
    if (verdict == "none: that is for a profiler" || verdict == "none: not run on a GPU yet") continue;
    SCOPED_TRACE(mutant.name);
    ASSERT_TRUE(table.contains(mutant.name));
    const std::string_view kernel = mutant.kernel;
    const bool is_bulk = kernel.find("family=sm90") != std::string_view::npos;
    const auto& healthy = table.at(kernel == "pipeline" ? "healthy_pipeline"
                                   : is_bulk            ? "healthy_bulk"
                                                        : "healthy_rows");
    std::string found;
    for (std::size_t tool = 0; tool < std::size(kTools); ++tool) {
      const std::string& counted = table.at(mutant.name)[tool];
      ASSERT_NE(counted, "") << kTools[tool];
      if (counted != "-" && counted != "0" && counted != healthy[tool]) found += kTools[tool];
    }
    const bool finds_nothing = verdict.starts_with("none: ") || verdict.starts_with("all: ");
    EXPECT_EQ(found, finds_nothing ? "" : verdict);
  }
}

}  // namespace
}  // namespace cubit::tests
