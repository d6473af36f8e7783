// Proves: an engine that may not compile serves what the stores hold, and a miss names the descriptor and the
// command that makes the kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/engine.hpp"
#include "runtime/missing.hpp"
#include "tests/runtime/engine_fixture.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class NeverCompileTest : public EngineTest {
 protected:
  Settings never() const {
    Settings result = settings();
    result.compile_policy = CompilePolicy::never;
    return result;
  }
  /// There is no such library, so this engine has no compiler.
  Settings never_without_compiler() const {
    Settings result = never();
    result.nvrtc_path = (folder_.path() / "libnvrtc.so").string();
    return result;
  }
};

TEST_F(NeverCompileTest, AMissNamesTheDescriptorTheTargetAndTheWayOut) {
  const auto counting = compiler();
  Engine engine(never(), {}, counting);
  const Failure failure = failure_of([&] { engine.get(test::small_source()); });
  EXPECT_EQ(failure.status(), Status::not_cached);
  EXPECT_THAT(failure.what(), AllOf(HasSubstr("small:first"), HasSubstr("sm_90a"), HasSubstr("may not compile"),
                                    HasSubstr("cubit compile 'small:first' --arch sm_90a")));
  EXPECT_EQ(counting->compiles(), 0u);
  EXPECT_EQ(engine.counters().failures, 1u);
}

TEST_F(NeverCompileTest, AMissOfACallersOwnSourceDoesNotNameACommandThatCannotMakeIt) {
  auto own = test::small_source();
  own.callers_own = true;
  Engine engine(never(), {}, compiler());
  const Failure failure = failure_of([&] { engine.get(own); });
  EXPECT_EQ(failure.status(), Status::not_cached);
  EXPECT_THAT(failure.what(), AllOf(HasSubstr("an engine that may compile and has the same cache folder"),
                                    testing::Not(HasSubstr("cubit compile"))));
}

/// The tool would need the file of the user's code, which has a name and a hash in the descriptor.
TEST_F(NeverCompileTest, AMissWithCodeOfTheUserDoesNotEither) {
  auto scored = test::small_source("score=tanh@0123456789abcdef");
  Engine engine(never(), {}, compiler());
  EXPECT_THAT(failure_of([&] { engine.get(scored); }).what(),
              AllOf(HasSubstr("an engine that may compile and has the same cache folder"),
                    testing::Not(HasSubstr("cubit compile"))));
}

TEST_F(NeverCompileTest, AMissOfTheCpuDevicesCodeNamesTheCommandThatCompilesPtx) {
  auto ptx = test::small_source();
  ptx.code = codegen::Code::ptx;
  Engine engine(never(), {}, compiler());
  EXPECT_THAT(failure_of([&] { engine.get(ptx); }).what(),
              AllOf(HasSubstr("small:first for cpu:sm_90a"),
                    HasSubstr("(cubit compile 'small:first' --arch sm_90a --ptx), or allow compilation")));
}

TEST(NotCachedTest, CommandsPutTheKernelsWhereTheEngineLooks) {
  const std::vector<MissingKernel> missing = {{"a:x", "sm_80"}, {"b:x", "sm_90a"}};
  EXPECT_THAT(
      not_cached(missing, {.cache_dir = "/srv/it's mine"}).what(),
      HasSubstr("(cubit compile 'a:x' --arch sm_80 --cache-dir '/srv/it'\\''s mine' && cubit compile 'b:x' --arch "
                "sm_90a --cache-dir '/srv/it'\\''s mine')"));
  EXPECT_THAT(not_cached(missing, {.loads_only_signed = true}).what(),
              HasSubstr("(cubit compile 'a:x' --arch sm_80 --bundle new1.cubit && cubit compile 'b:x' --arch sm_90a "
                        "--bundle new2.cubit) into a new bundle, sign the bundle"));
}

TEST(NotCachedTest, EachArchitectureAndKindOfCodeHasACommand) {
  const std::vector<MissingKernel> missing = {{"b:x", "sm_90a"},
                                              {"a:x", "sm_90a", codegen::Code::ptx},
                                              {"a:x", "sm_90a"},
                                              {"c:x", "sm_80", codegen::Code::ptx},
                                              {"a:score=s@0123456789abcdef", "sm_80"}};
  EXPECT_THAT(not_cached(missing).what(),
              HasSubstr("compile them beforehand (cubit compile 'c:x' --arch sm_80 --ptx && "
                        "cubit compile 'a:x' 'b:x' --arch sm_90a && cubit compile 'a:x' --arch sm_90a --ptx), or get "
                        "them once from an engine that may compile"));
}

TEST_F(NeverCompileTest, WhatIsOnDiskIsServed) {
  const auto counting = compiler();
  Engine(settings(), {}, counting).get(test::small_source());
  Engine engine(never(), {}, counting);
  EXPECT_TRUE(engine.get(test::small_source()));
  EXPECT_EQ(engine.counters().disk_hits, 1u);
}

TEST_F(NeverCompileTest, NeedsNoCompiler) {
  Engine(settings(), {}, compiler()).get(test::small_source());
  Engine engine(never_without_compiler(), lines_.sink());
  EXPECT_TRUE(engine.get(test::small_source()));
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source("other")); }).status(), Status::not_cached);
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(NeverCompileTest, AnotherCompilersEntryIsServed) {
  // The entry was made by 12.8.93. The compiler of this engine is 13.0.88.
  DiskCache(settings().cache_dir, {}).publish(test::small_artifact(test::small_source(), {12, 8, 93}));
  const auto counting = compiler();
  Engine engine(never(), lines_.sink(), counting);
  EXPECT_EQ(engine.get(test::small_source())->artifact().compiler.text(), "12.8.93");
  EXPECT_EQ(engine.counters().disk_hits, 1u);
  EXPECT_EQ(counting->compiles(), 0u);
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(NeverCompileTest, AKernelStoredLaterIsFound) {
  Engine engine(never_without_compiler(), {});
  EXPECT_EQ(failure_of([&] { engine.get(test::small_source()); }).status(), Status::not_cached);
  Engine(settings(), {}, compiler()).get(test::small_source());
  EXPECT_TRUE(engine.get(test::small_source()));
}

}  // namespace
}  // namespace cubit::runtime
