// Proves: print() keeps the whole module. Its text parses to the same values and prints the same text again.
#include <gtest/gtest.h>

#include "runtime/cpu/ptx/ast.hpp"
#include "tests/runtime_cpu/ptx/same_module.hpp"
#include "tests/runtime_cpu/ptx/sample_text.hpp"

namespace cubit::runtime::ptx {
namespace {

TEST(Print, RoundTripOfEveryConstruct) {
  const Module module = parse(kEveryConstruct);
  const std::string text = print(module);
  const Module again = parse(text);
  EXPECT_EQ(difference(module, again), "");
  EXPECT_EQ(print(again), text);
}

TEST(Print, AnInnerRegisterDoesNotCaptureAnOuterName) {
  const Module module = parse(
      ".version 8.8 .target sm_80 .shared .b32 x; .entry k(.param .b32 a) { .reg .b32 r, _; { .reg .b32 r, x, a;"
      " .reg .b32 %clock<65>; mov.b32 r, x; mov.b32 %clock64, a; mov.b32 _, r; } mov.b32 r, x; mov.u64 r, %clock64; }");
  EXPECT_EQ(difference(module, parse(print(module))), "");
}

TEST(Print, DifferencesAreSeen) {
  const Module a = parse(".version 8.8 .target sm_80 .entry k { .reg .b32 r, s; mov.b32 r, s; }");
  const Module b = parse(".version 8.8 .target sm_80 .entry k { .reg .b32 r, s; mov.b32 s, r; }");
  EXPECT_NE(difference(a, b), "");
}

}  // namespace
}  // namespace cubit::runtime::ptx
