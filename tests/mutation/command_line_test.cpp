// `cubit run --check-memory` from end to end. The program's cache holds a kernel with a planted defect under the key of
// the healthy kernel; the command must find the defect and report it.
#include <gmock/gmock.h>

#include "base/error.hpp"
#include "ops/operator.hpp"
#include "runtime/cache/key.hpp"
#include "runtime/engine.hpp"
#include "tests/mutation/mutants.hpp"
#include "tests/tools/program.hpp"

namespace cubit::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kArchitecture = "sm_80";

codegen::KernelSource healthy_source(const Mutant& mutant) {
  const ops::Operator& op = ops::find_operator(mutant.kernel);
  codegen::KernelSource source =
      op.specialise(op.canonical(mutant.kernel), codegen::find_architecture(kArchitecture))->source();
  source.code = codegen::Code::ptx;
  return source;
}

/// Stores the mutant's code under the key of the healthy kernel.
runtime::Artifact exchanged(const Mutant& mutant) {
  runtime::Settings settings = runtime::Settings::from_environment();
  settings.cache_dir.clear();
  const codegen::KernelSource healthy = healthy_source(mutant);
  codegen::KernelSource planted = healthy;
  plant(mutant, planted);
  runtime::Artifact artifact = runtime::Engine(settings, {}).get(planted)->artifact();
  artifact.key = runtime::request_key(healthy);
  return artifact;
}

class CheckMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto trouble = program_.run({"devices", "--json"}).json().at("cpu").at("trouble").get<std::string>();
    if (!trouble.empty()) GTEST_SKIP() << trouble;
    if (!program_.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  }
  tools::test::Result run(const Mutant& mutant, std::vector<std::string> more) const {
    std::vector<std::string> words = {"run", mutant.kernel, "--random",    mutant.sizes, "--device",
                                      "cpu", "--arch",      kArchitecture, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return program_.run(words);
  }

  tools::test::Program program_;
};

/// Only the kernel writes the workspace, apart from the counters. In this mutant one head's share of the softmax is not
/// written.
TEST_F(CheckMemory, FindsAPartialResultThatNobodyWrote) {
  const Mutant& mutant = find_mutant("element_not_stored");
  const auto healthy = run(mutant, {"--check-memory", "--check"});
  ASSERT_EQ(healthy.exit_code, 0) << healthy.err;
  EXPECT_EQ(healthy.json().at("memory"), "checked");

  ASSERT_TRUE(runtime::DiskCache(program_.cache(), {}).publish(exchanged(mutant)));
  const auto watched = run(mutant, {"--check-memory"});
  EXPECT_EQ(watched.exit_code, 1);
  EXPECT_EQ(watched.out, "");
  EXPECT_THAT(watched.err, AllOf(HasSubstr("kernel gqa_decode, block (3, 0, 0): "), HasSubstr("nobody has written"),
                                 HasSubstr("partial_results.cuh:"), HasSubstr("warp 3, lane 0")));
  EXPECT_EQ(run(mutant, {}).exit_code, 0) << "not watched, nobody looks";
}

}  // namespace
}  // namespace cubit::tests
