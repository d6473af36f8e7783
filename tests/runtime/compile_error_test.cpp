// Proves: a compile error shows descriptor, target, log, and the numbered lines of the right file around each place.
#include "runtime/compiler/compile_error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cubit::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

codegen::KernelSource source() {
  codegen::KernelSource result;
  result.descriptor = "gqa_decode:heads_per_kv=8";
  result.target = "sm_90a";
  result.template_name = "kernel.cuh";
  result.template_text = "t1\nt2\nt3\nt4\nt5\nt6\nt7";
  result.headers = {{"plan.cuh", "p1\np2\np3\n"}, {"role.cuh", "r1\n"}};
  return result;
}

TEST(CompileErrorTest, QuotesTwoLinesAroundInTheTemplate) {
  EXPECT_EQ(source_excerpts(source(), "/cubit/kernel.cuh(4): error: identifier \"x\" is undefined\n  x\n  ^\n"),
            "/cubit/kernel.cuh:\n"
            "      2 | t2\n"
            "      3 | t3\n"
            ">     4 | t4\n"
            "      5 | t5\n"
            "      6 | t6\n");
}

TEST(CompileErrorTest, QuotesTheHeaderThatTheLogNames) {
  EXPECT_EQ(source_excerpts(source(), "plan.cuh(1): error #20: no\n"),
            "plan.cuh:\n>     1 | p1\n      2 | p2\n      3 | p3\n");
  EXPECT_EQ(source_excerpts(source(), "role.cuh(1): catastrophic error: no\n"), "role.cuh:\n>     1 | r1\n");
}

TEST(CompileErrorTest, EachPlaceOnceAndInTheLogsOrder) {
  const std::string excerpts = source_excerpts(
      source(), "role.cuh(1): error: a\nplan.cuh(3): error: b\nrole.cuh(1): error: c\n3 errors detected\n");
  EXPECT_EQ(excerpts, "role.cuh:\n>     1 | r1\nplan.cuh:\n      1 | p1\n      2 | p2\n>     3 | p3\n");
}

TEST(CompileErrorTest, LinesThatNameNoKnownPlaceAreNotQuoted) {
  for (const std::string_view log : {"other.cuh(1): error: x", "plan.cuh(99): error: x", "plan.cuh(0): error: x",
                                     "plan.cuh(-1): error: x", "plan.cuh(1): warning: x", "(1): error: x",
                                     "plan.cuh(99999999999999): error: x", "plan.cuh(): error", "): error: x", ""}) {
    EXPECT_EQ(source_excerpts(source(), log), "") << log;
  }
}

TEST(CompileErrorTest, TheFailureHoldsEverything) {
  const Failure failure = compile_failure(source(), "NVRTC 13.0 (libnvrtc.so.13)", "NVRTC_ERROR_COMPILATION",
                                          "plan.cuh(2): error: bad\n1 error detected\n");
  EXPECT_EQ(failure.status(), Status::compile_failed);
  for (const char* part : {"gqa_decode:heads_per_kv=8 for sm_90a", "NVRTC 13.0 (libnvrtc.so.13)",
                           "NVRTC_ERROR_COMPILATION", "plan.cuh(2): error: bad", ">     2 | p2"}) {
    EXPECT_THAT(failure.what(), HasSubstr(part));
  }
}

TEST(CompileErrorTest, OfManyErrorsTheFirstAreShown) {
  std::string log;
  for (int i = 0; i < 900; ++i) log += fmt::format("/cubit/kernel.cuh({}): error: number {}\n", 1 + i % 7, i);
  const std::string text = compile_failure(source(), "NVRTC", "NVRTC_ERROR_COMPILATION", log).what();
  EXPECT_THAT(text, HasSubstr("error: number 59\n… 840 lines more\nthe source there:\n"));
  EXPECT_THAT(text, Not(HasSubstr("number 60")));
  EXPECT_THAT(text, HasSubstr(">     5 | t5"));
  EXPECT_THAT(text, Not(HasSubstr(">     6 | t6")));
}

TEST(CompileErrorTest, WithoutPlacesTheLogStandsAlone) {
  const Failure failure = compile_failure(source(), "NVRTC", "NVRTC_ERROR_INVALID_OPTION", "unrecognized option");
  EXPECT_THAT(failure.what(), HasSubstr("unrecognized option"));
  EXPECT_THAT(failure.what(), Not(HasSubstr("the source there")));
}

}  // namespace
}  // namespace cubit::runtime
