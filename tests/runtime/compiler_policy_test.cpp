// Proves: the compiler policy decides which stored code answers, when NVRTC is opened, and which version may compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CompilerPolicyTest : public testing::Test {
 protected:
  Settings settings() const { return {.cache_dir = (folder_.path() / "cache").string()}; }

  test::TemporaryFolder folder_;
};

/// How an engine that gets the small kernel, which is stored, uses a library that looks like NVRTC: by its log, and by
/// the files that its process maps.
std::string use_of_nvrtc(const Settings& settings) {
  return test::Child([&]() -> std::string {
           test::Lines lines(LogLevel::debug);
           if (!Engine(settings, lines.sink()).get(test::small_source())) return "no kernel";
           const std::string files = test::read_whole("/proc/self/maps");
           std::string use = files.find(settings.nvrtc_path) == std::string::npos ? "not mapped" : "mapped";
           for (const std::string& line : lines.all()) {
             if (line.starts_with("NVRTC")) use += ", " + line;
           }
           return use;
         })
      .join();
}

/// Only PTX that NVRTC makes tells its build number. So `exact` opens NVRTC at the first request, unless the version is
/// stated.
TEST_F(CompilerPolicyTest, AHitLoadsTheCompilerOnlyUnderExactWithoutAVersion) {
  DiskCache(settings().cache_dir, {}).publish(test::small_artifact(test::small_source(), {12, 8, 7}));
  Settings exact = settings();
  exact.nvrtc_path = (folder_.path() / "libfake.so").string();  // a file that no other test maps
  std::filesystem::copy_file(FAKE_NVRTC, exact.nvrtc_path);
  EXPECT_EQ(use_of_nvrtc(exact), "not mapped");
  exact.compiler_policy = CompilerPolicy::exact;
  EXPECT_EQ(use_of_nvrtc(exact), "mapped, NVRTC 12.8.7") << "the version of the fake library";
  exact.compiler_version = CompilerVersion{12, 8, 7};
  EXPECT_EQ(use_of_nvrtc(exact), "not mapped");
}

TEST_F(CompilerPolicyTest, AStatedVersionIsTheOnlyOneThatAnswersAndCompiles) {
  DiskCache(settings().cache_dir, {}).publish(test::small_artifact(test::small_source(), {12, 8, 93}));
  Settings stated = settings();
  stated.compiler_policy = CompilerPolicy::exact;
  stated.compiler_version = CompilerVersion{12, 8, 93};
  const auto counting = std::make_shared<test::CountingCompiler>(folder_.path() / "count");  // 13.0.88
  Engine engine(stated, {}, counting);
  EXPECT_EQ(engine.get(test::small_source())->artifact().compiler.text(), "12.8.93");
  try {
    engine.get(test::small_source("other"));
    FAIL() << "compiled with another version";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::compiler_unavailable);
    EXPECT_THAT(failure.what(), AllOf(HasSubstr("NVRTC 13.0.88"), HasSubstr("only code of NVRTC 12.8.93")));
  }
  EXPECT_EQ(counting->compiles(), 0u);
  stated.compiler_version = CompilerVersion{13, 0, 88};
  EXPECT_EQ(Engine(stated, {}, counting).get(test::small_source())->artifact().compiler.text(), "13.0.88");
  EXPECT_EQ(counting->compiles(), 1u) << "the entry of another version does not answer";
  stated.compile_policy = CompilePolicy::never;
  EXPECT_TRUE(Engine(stated, {}).is_cached(test::small_source())) << "no compiler is needed";
}

}  // namespace
}  // namespace cubit::runtime
