// See suite_kernels.hpp.
#include "tests/gpu/suite_kernels.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace cubit::tests {
namespace {

std::map<std::string, SuiteKernels::List>& lists() {
  static std::map<std::string, SuiteKernels::List> instance;
  return instance;
}

/// Canonical texts, by suite.
std::map<std::string, std::set<std::string>>& declared() {
  static std::map<std::string, std::set<std::string>> instance;
  return instance;
}

/// "Parts/GqaDecodePairsGpu" is an instance of the suite "GqaDecodePairsGpu".
std::string suite_name(const std::string& instance) { return instance.substr(instance.find('/') + 1); }

bool runs(const ::testing::TestSuite& suite) { return suite.should_run() && suite.test_to_run_count() > 0; }

std::optional<Device> first_gpu() {
  try {
    return Device("cuda:0");
  } catch (const Error&) {  // every test says so when it skips
    return std::nullopt;
  }
}

/// Prepares the kernels of the suites in the order of the suites, on a thread of its own, while tests run. A test that
/// needs a kernel earlier waits for that kernel alone. Without a GPU the environment compiles nothing.
class Preparation : public ::testing::Environment {
 public:
  void SetUp() override {
    const std::optional<Device> device = first_gpu();
    if (!device) return;
    thread_ = std::thread([device = *device, lists = lists_that_run(architecture_of(*device))] {
      const auto start = std::chrono::steady_clock::now();
      std::size_t count = 0;
      for (const auto& texts : lists) {
        prepare(texts, device);
        count += texts.size();
      }
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::printf("%zu kernels prepared after %.1f s\n", count, seconds.count());
    });
  }
  void TearDown() override {
    if (thread_.joinable()) thread_.join();
  }

 private:
  static void prepare(const std::vector<std::string>& texts, const Device& device) {
    try {
      gpu_engine().prepare(texts, std::vector<Device>{device});
    } catch (const Error& error) {  // the tests of that kernel will fail, and no others
      std::printf("not prepared: %s\n", error.what());
    }
  }

  static std::vector<std::vector<std::string>> lists_that_run(const std::string& architecture) {
    const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
    std::vector<std::vector<std::string>> texts;
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      const ::testing::TestSuite& suite = *all.GetTestSuite(i);
      const std::string name = suite_name(suite.name());
      if (!runs(suite) || !lists().contains(name) || declared().contains(name)) continue;
      for (const std::string& text : lists().at(name)(architecture)) declared()[name].insert(canonical(text));
      texts.emplace_back(declared()[name].begin(), declared()[name].end());
    }
    return texts;
  }

  std::thread thread_;
};

const ::testing::Environment* const kPreparation = ::testing::AddGlobalTestEnvironment(new Preparation);

}  // namespace

SuiteKernels::SuiteKernels(std::string suite, List list) { lists().emplace(std::move(suite), std::move(list)); }

const Engine& gpu_engine() {
  static const Engine instance;
  return instance;
}

std::string architecture_of(const Device& device) {
  const std::string json = device.describe();
  const std::size_t at = json.find("sm_");
  return json.substr(at, json.find('"', at) - at);
}

bool is_declared(const std::string& descriptor) {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return false;
  const auto suite = declared().find(suite_name(test->test_suite_name()));
  return suite != declared().end() && suite->second.contains(canonical(descriptor));
}

}  // namespace cubit::tests
