// Compares the whole text of plan headers: exactly the requested lines in the order of the calls.
#include "codegen/plan_header.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/codegen/failure_text.hpp"

namespace cubit::codegen {
namespace {

PlanHeader example() {
  PlanHeader header("gqa_decode:heads_per_kv=8");
  header.constant("kHeadDim", 128)
      .include("kv_int4_rows.cuh")
      .flag("kPaged", false)
      .alias("Query", "Bf16")
      .constant("kStride", 5000000000LL)
      .layout("key_tile", {.rows = 4, .row_bytes = 64, .pitch = 80, .swizzle = {}})
      .layout("value", {.rows = 16, .row_bytes = 256, .pitch = 256, .swizzle = {.bits = 3, .base = 4, .shift_from = 8}})
      .include("epilogue.cuh");
  return header;
}

TEST(PlanHeader, IsWrittenInTheOrderOfTheCalls) {
  EXPECT_EQ(example().text(), R"(// gqa_decode:heads_per_kv=8
#pragma once

#include "kv_int4_rows.cuh"
#include "epilogue.cuh"

namespace plan {

constexpr int kHeadDim = 128;
constexpr bool kPaged = false;
using Query = Bf16;
constexpr long long kStride = 5000000000LL;
constexpr int kKeyTilePitch = 80;
constexpr int kKeyTileBytes = 304;
constexpr __device__ int key_tile(int row, int byte) { return row * 80 + byte; }
constexpr int kValuePitch = 256;
constexpr int kValueBytes = 4096;
constexpr __device__ int value(int row, int byte) {
  const int address = row * 256 + byte;
  return address ^ (((address >> 8) & 7) << 4);
}

}  // namespace plan
)");
}

TEST(PlanHeader, SameCallsGiveTheSameBytes) {
  EXPECT_EQ(example().text(), example().text());
  PlanHeader once = example();
  EXPECT_EQ(once.text(), once.text());
}

TEST(PlanHeader, WithoutContentItIsStillAHeader) {
  EXPECT_EQ(PlanHeader("x").text(), "// x\n#pragma once\n\nnamespace plan {\n\n\n}  // namespace plan\n");
}

TEST(PlanHeader, ConstantsWidenOnlyWhereTheyMust) {
  const auto line = [](std::int64_t value) {
    const std::string text = PlanHeader("x").constant("k", value).text();
    const std::size_t start = text.find("constexpr");
    return text.substr(start, text.find('\n', start) - start);
  };
  EXPECT_EQ(line(2147483647), "constexpr int k = 2147483647;");
  EXPECT_EQ(line(2147483648), "constexpr long long k = 2147483648LL;");
  EXPECT_EQ(line(-2147483648LL), "constexpr int k = -2147483648;");
  EXPECT_EQ(line(-2147483649LL), "constexpr long long k = -2147483649LL;");
  EXPECT_EQ(line(INT64_MAX), "constexpr long long k = 9223372036854775807LL;");
  EXPECT_EQ(line(INT64_MIN), "constexpr long long k = -9223372036854775807LL - 1;");
}

TEST(PlanHeader, RejectsWhatWouldNotStayOnItsLine) {
  EXPECT_EQ(failure_text([] { PlanHeader header("a\nb"); }), "descriptor \"a\nb\": not one printable line");
  EXPECT_EQ(failure_text([] { PlanHeader header("a\\"); }), "descriptor \"a\\\": not one printable line");
  EXPECT_EQ(failure_text([] { PlanHeader("x").alias("T", "int;\nint y"); }),
            "type \"int;\nint y\": not one printable line");
  EXPECT_EQ(failure_text([] { PlanHeader("x").include("a\"b"); }), "header \"a\"b\": not a name for #include");
  EXPECT_EQ(failure_text([] { PlanHeader("x").include(""); }), "header \"\": not a name for #include");
}

TEST(PlanHeader, RejectsNamesThatAreNotIdentifiers) {
  EXPECT_EQ(failure_text([] { PlanHeader("x").constant("1k", 1); }), "constant \"1k\": not a C++ identifier");
  EXPECT_EQ(failure_text([] { PlanHeader("x").constant("", 1); }), "constant \"\": not a C++ identifier");
  EXPECT_EQ(failure_text([] { PlanHeader("x").flag("a-b", true); }), "flag \"a-b\": not a C++ identifier");
  EXPECT_EQ(failure_text([] { PlanHeader("x").alias("a b", "int"); }), "alias \"a b\": not a C++ identifier");
  EXPECT_EQ(failure_text([] { PlanHeader("x").layout("é", {.rows = 1, .row_bytes = 4, .pitch = 4, .swizzle = {}}); }),
            "layout function \"é\": not a C++ identifier");
}

}  // namespace
}  // namespace cubit::codegen
