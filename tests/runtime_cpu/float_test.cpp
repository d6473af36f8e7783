// Proves: floating-point instructions agree with C++ on every pair of corner values, with the ISA's canonical NaN. PTX
// ISA, "Floating Point Instructions".
#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using Word = std::uint32_t;

Word canonical(float value) { return std::isnan(value) ? 0x7fffffff : bits_of(value); }
float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.f, value) : value; }

float smaller(float a, float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

struct FloatInstruction {
  const char* text;
  std::function<float(float, float, float)> expected;
  int operands = 2;
};

/// Zero if the product lies below the value that would round to the lowest normal number with full-precision
/// subnormals.
float flushed_product(float a, float b) {
  const double exact = static_cast<double>(a) * static_cast<double>(b);
  return std::abs(exact) < 0x1p-126 - 0x1p-151 ? std::copysign(0.F, a * b) : a * b;
}

TEST(FloatInstructions, AreRoundedOnceAndGiveTheCanonicalNan) {
  const std::vector<FloatInstruction> all = {
      {"add.f32 %r3, %r0, %r1;", [](float a, float b, float) { return a + b; }},
      {"add.ftz.f32 %r3, %r0, %r1;", [](float a, float b, float) { return flushed(flushed(a) + flushed(b)); }},
      {"sub.f32 %r3, %r0, %r1;", [](float a, float b, float) { return a - b; }},
      {"mul.f32 %r3, %r0, %r1;", [](float a, float b, float) { return a * b; }},
      {"mul.ftz.f32 %r3, %r0, %r1;", [](float a, float b, float) { return flushed_product(flushed(a), flushed(b)); }},
      {"div.rn.f32 %r3, %r0, %r1;", [](float a, float b, float) { return a / b; }},
      {"rcp.rn.f32 %r3, %r0;", [](float a, float, float) { return 1 / a; }},
      {"sqrt.rn.f32 %r3, %r0;", [](float a, float, float) { return std::sqrt(a); }},
      {"fma.rn.f32 %r3, %r0, %r1, %r2;", [](float a, float b, float c) { return std::fma(a, b, c); }, 3},
      {"min.f32 %r3, %r0, %r1;", [](float a, float b, float) { return smaller(a, b); }},
      {"max.f32 %r3, %r0, %r1;", [](float a, float b, float) { return -smaller(-a, -b); }},
      {"abs.f32 %r3, %r0;", [](float a, float, float) { return std::abs(a); }},
      {"neg.f32 %r3, %r0;", [](float a, float, float) { return -a; }},
      {"add.sat.f32 %r3, %r0, %r1;",
       [](float a, float b, float) { return std::isnan(a + b) ? 0.f : std::clamp(a + b, 0.f, 1.f) + 0.f; }},
  };
  for (const FloatInstruction& instruction : all) {
    SCOPED_TRACE(instruction.text);
    const auto rows = rows_of(float_corners(), instruction.operands);
    const auto results = results_of(instruction.text, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float expected = instruction.expected(float_of(rows[i][0]), float_of(rows[i][1]), float_of(rows[i][2]));
      ASSERT_EQ(results[i], canonical(expected)) << std::hex << rows[i][0] << ' ' << rows[i][1] << ' ' << rows[i][2];
    }
  }
}

TEST(FloatInstructions, MinAndMaxCanLetNanWin) {
  const auto rows = rows_of(float_corners());
  const auto results = results_of("max.NaN.f32 %r3, %r0, %r1;", rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float a = float_of(rows[i][0]);
    const float b = float_of(rows[i][1]);
    ASSERT_EQ(results[i], std::isnan(a) || std::isnan(b) ? 0x7fffffff : bits_of(-smaller(-a, -b)));
  }
}

TEST(FloatInstructions, ApproximationsAreWithinTheIsasBounds) {
  std::vector<Row> rows;
  for (float x = -130.f; x < 127.9f; x += 0.37f) rows.push_back({bits_of(x), 0, 0});
  const auto powers = results_of("ex2.approx.ftz.f32 %r3, %r0;", rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double exact = std::exp2(static_cast<double>(float_of(rows[i][0])));
    if (exact < 0x1p-126) {
      ASSERT_EQ(powers[i], 0u);  // flushed
    } else {
      ASSERT_NEAR(static_cast<double>(float_of(powers[i])) / exact, 1.0, 0x1p-22);
    }
  }
  const std::vector<Row> specials = {{0xff800000, 0, 0}, {0x7f800000, 0, 0}, {0, 0, 0}, {0x00000001, 0, 0}};
  EXPECT_EQ(results_of("ex2.approx.ftz.f32 %r3, %r0;", specials),
            (std::vector<Word>{0, 0x7f800000, 0x3f800000, 0x3f800000}));
  EXPECT_EQ(results_of("lg2.approx.ftz.f32 %r3, %r0;",
                       {{0, 0, 0}, {0x3f800000, 0, 0}, {0xbf800000, 0, 0}, {0x7f800000, 0, 0}}),
            (std::vector<Word>{0xff800000, 0, 0x7fffffff, 0x7f800000}));
}

TEST(FloatInstructions, ComparisonsOrderedAndUnordered) {
  const auto rows = rows_of(float_corners());
  struct Named {
    const char* name;
    std::function<bool(float, float)> holds;
  };
  const auto unordered = [](float a, float b) { return std::isnan(a) || std::isnan(b); };
  const std::vector<Named> all = {{"eq", [](float a, float b) { return a == b; }},
                                  {"ne", [&](float a, float b) { return a != b && !unordered(a, b); }},
                                  {"neu", [](float a, float b) { return a != b; }},
                                  {"lt", [](float a, float b) { return a < b; }},
                                  {"geu", [](float a, float b) { return !(a < b); }},
                                  {"gt", [](float a, float b) { return a > b; }},
                                  {"num", [&](float a, float b) { return !unordered(a, b); }},
                                  {"nan", [&](float a, float b) { return unordered(a, b); }}};
  for (const Named& row : all) {
    SCOPED_TRACE(row.name);
    const auto results =
        results_of(std::string("setp.") + row.name + ".f32 %p0, %r0, %r1;\n selp.b32 %r3, 1, 0, %p0;", rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      ASSERT_EQ(results[i], Word{row.holds(float_of(rows[i][0]), float_of(rows[i][1]))});
  }
}

/// Directed rounding of the exact result. A sum fits a long double, and a product fits a double.
TEST(FloatInstructions, RoundInTheDirectionAskedFor) {
  const auto rows = rows_of({bits_of(1.f), bits_of(0x1p-24f), bits_of(-0x1p-24f), bits_of(1.f + 0x1p-23f), bits_of(3.f),
                             bits_of(-0x1.fffffep5f), bits_of(0x1p20f), bits_of(0x1.234566p-10f)});
  struct Direction {
    const char* name;
    std::function<float(long double)> round;
  };
  const auto below = [](long double x) {
    const auto y = static_cast<float>(x);
    return static_cast<long double>(y) > x ? std::nextafterf(y, -HUGE_VALF) : y;
  };
  const auto above = [](long double x) {
    const auto y = static_cast<float>(x);
    return static_cast<long double>(y) < x ? std::nextafterf(y, HUGE_VALF) : y;
  };
  for (const Direction& direction : {Direction{"rm", below}, Direction{"rp", above},
                                     Direction{"rz", [&](long double x) { return x < 0 ? above(x) : below(x); }}}) {
    SCOPED_TRACE(direction.name);
    const auto named = [&](const char* text) { return text + std::string(".") + direction.name; };
    const auto sums = results_of(named("add") + ".f32 %r3, %r0, %r1;", rows);
    const auto products = results_of(named("mul") + ".f32 %r3, %r0, %r1;", rows);
    const auto fused = results_of(named("fma") + ".f32 %r3, %r0, %r1, 0f3F800000;", rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto a = static_cast<long double>(float_of(rows[i][0]));
      const auto b = static_cast<long double>(float_of(rows[i][1]));
      if (a + b != 0) {
        ASSERT_EQ(sums[i], bits_of(direction.round(a + b)));
      }
      ASSERT_EQ(products[i], bits_of(direction.round(a * b)));
      ASSERT_EQ(fused[i], bits_of(direction.round(a * b + 1)));
    }
  }
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  EXPECT_EQ(wide_results_of("div.rp.f64 %d3, %d0, %d1;", {{bits(1), bits(3), 0}})[0], bits(1.0 / 3) + 1);
  EXPECT_EQ(wide_results_of("sqrt.rm.f64 %d3, %d0;", {{bits(2), 0, 0}})[0], bits(std::sqrt(2.0)) - 1);
  EXPECT_EQ(results_of("add.rm.f32 %r3, %r0, %r1;", {{bits_of(1), bits_of(-1), 0}})[0], 0x80000000u);
}

TEST(FloatInstructions, SaturateToTheUnitInterval) {
  const auto rows = rows_of(float_corners());
  const auto sums = results_of("add.sat.f32 %r3, %r0, %r1;", rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float sum = float_of(rows[i][0]) + float_of(rows[i][1]);
    ASSERT_EQ(float_of(sums[i]), std::isnan(sum) ? 0.f : std::clamp(sum, 0.f, 1.f));
  }
  const std::vector<Row> halves = {{0x3c003c00, 0x3c00c000, 0}, {0x7e007e00, 0, 0}};
  const auto limited = results_of("add.sat.f16x2 %r3, %r0, %r1;", halves);
  EXPECT_EQ(limited, (std::vector<Word>{0x3c000000, 0}));
  const auto positive = results_of("fma.rn.relu.f16x2 %r3, %r0, 0x3c003c00, %r1;", halves);
  EXPECT_EQ(positive, (std::vector<Word>{0x40000000, 0x7fff7fff}));
}

/// Compared with the same comparisons of the numbers in single precision.
TEST(HalfArithmetic, ComparisonsAreThoseOfTheNumbers) {
  std::vector<Row> rows;
  for (const Word a : {0x0000u, 0x8000u, 0x0001u, 0x8001u, 0x03ffu, 0x0400u, 0x3c00u, 0x3c01u, 0xbc00u, 0x7bffu,
                       0x7c00u, 0xfc00u, 0x7c01u, 0x7e00u}) {
    for (const Word b : {0x0000u, 0x0001u, 0x3c00u, 0xbc00u, 0x7c00u, 0xfe00u, 0x3f80u}) rows.push_back({a, b, 0});
  }
  for (const char* type : {"f16", "bf16"}) {
    for (const char* name : {"eq", "ne", "lt", "le", "gt", "geu", "nan", "num"}) {
      SCOPED_TRACE(std::string(name) + type);
      const std::string halves = "cvt.u16.u32 %s0, %r0; cvt.u16.u32 %s1, %r1; ";
      const std::string wide = std::string("cvt.f32.") + type + " %f0, %s0; cvt.f32." + type + " %f1, %s1; ";
      const auto expected =
          results_of(halves + wide + "setp." + name + ".f32 %p0, %f0, %f1; selp.u32 %r3, 1, 0, %p0;", rows);
      EXPECT_EQ(results_of(halves + "setp." + name + "." + type + " %p0, %s0, %s1; selp.u32 %r3, 1, 0, %p0;", rows),
                expected);
      // The low halves are those of the row; the high halves are exchanged.
      const auto packed = results_of(
          "shl.b32 %r4, %r1, 16; or.b32 %r4, %r4, %r0; shl.b32 %r5, %r0, 16; "
          "or.b32 %r5, %r5, %r1; setp." +
              std::string(name) + "." + type +
              "x2 %p0|%p1, %r4, %r5; selp.u32 %r3, 1, 0, %p0; @%p1 add.u32 %r3, %r3, 2;",
          rows);
      const auto exchanged =
          results_of(halves + wide + "setp." + name + ".f32 %p0, %f1, %f0; selp.u32 %r3, 2, 0, %p0;", rows);
      for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(packed[i], expected[i] + exchanged[i]);
    }
  }
}

TEST(Conversions, FloatsToIntegersClampAndRound) {
  const auto& corners = float_corners();
  std::vector<Row> rows;
  for (const Word a : corners) rows.push_back({a, 0, 0});
  for (const float a : {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 2147483520.f, 4294967040.f, -2147483648.f})
    rows.push_back({bits_of(a), 0, 0});
  const auto nearest = results_of("cvt.rni.s32.f32 %r3, %r0;", rows);
  const auto zero = results_of("cvt.rzi.u32.f32 %r3, %r0;", rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double x = float_of(rows[i][0]);
    const double even = std::nearbyint(x);
    const auto as_signed = std::isnan(x) ? 0 : static_cast<std::int64_t>(std::clamp(even, -0x1p31, 0x1p31 - 1));
    const auto as_unsigned = std::isnan(x) ? 0 : static_cast<std::int64_t>(std::clamp(std::trunc(x), 0.0, 0x1p32 - 1));
    ASSERT_EQ(nearest[i], static_cast<Word>(as_signed)) << x;
    ASSERT_EQ(zero[i], static_cast<Word>(as_unsigned)) << x;
  }
}

TEST(Conversions, IntegersToFloatsRoundToNearestEven) {
  std::vector<Row> rows;
  for (const Word a : integer_corners()) rows.push_back({a, 0, 0});
  for (const Word a : {0x1000001u, 0x1000003u, 0xffffff80u, 0x80000040u, 0x800000c0u}) rows.push_back({a, 0, 0});
  const auto from_signed = results_of("cvt.rn.f32.s32 %r3, %r0;", rows);
  const auto from_unsigned = results_of("cvt.rn.f32.u32 %r3, %r0;", rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(from_signed[i], bits_of(static_cast<float>(static_cast<std::int32_t>(rows[i][0]))));
    ASSERT_EQ(from_unsigned[i], bits_of(static_cast<float>(rows[i][0])));
  }
}

TEST(Conversions, PairsPackTheFirstOperandHigh) {
  const std::vector<Row> rows = {{bits_of(1.f), bits_of(-2.f), 0}};
  EXPECT_EQ(results_of("cvt.rn.f16x2.f32 %r3, %r0, %r1;", rows)[0], 0x3c00c000u);
  EXPECT_EQ(results_of("cvt.rn.bf16x2.f32 %r3, %r0, %r1;", rows)[0], 0x3f80c000u);
}

/// All 65536 numbers survive conversion to single precision and back; NaNs become the canonical NaN.
TEST(Conversions, EveryHalfIsExactInSinglePrecision) {
  std::vector<Row> rows;
  for (Word bits = 0; bits < 65536; ++bits) rows.push_back({bits, 0, 0});
  const auto wide = results_of("cvt.u16.u32 %s0, %r0;\n cvt.f32.f16 %r3, %s0;", rows);
  std::vector<Row> back;
  for (const Word bits : wide) back.push_back({bits, 0, 0});
  const auto narrow = results_of("cvt.rn.f16.f32 %s0, %r0;\n cvt.u32.u16 %r3, %s0;", back);
  for (Word bits = 0; bits < 65536; ++bits) {
    const bool is_nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    ASSERT_EQ(narrow[bits], is_nan ? 0x7fff : bits);
    if (is_nan) continue;
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double magnitude = exponent == 0    ? std::ldexp(bits & 0x3ff, -24)
                             : exponent == 31 ? HUGE_VAL
                                              : std::ldexp((bits & 0x3ff) + 1024, exponent - 25);
    ASSERT_EQ(float_of(wide[bits]), static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude));
  }
}

TEST(HalfArithmetic, RoundsTheExactResultOnce) {
  // 1 + 2^-11 is a tie that rounds to even. The fused product of 1 + 2^-10 squared has more bits than any half.
  EXPECT_EQ(results_of("add.f16x2 %r3, %r0, %r1;", {{0x3c003c01, 0x10001000, 0}})[0], 0x3c003c02u);
  EXPECT_EQ(results_of("fma.rn.f16x2 %r3, %r0, %r1, %r2;", {{0x3c013c01, 0x3c013c01, 0xbc02bc02}})[0], 0x00100010u);
  EXPECT_EQ(results_of("fma.rn.f16x2 %r3, %r0, %r1, %r2;", {{0x7bff7c00, 0x40000000, 0x00000000}})[0], 0x7c007fffu);
}

}  // namespace
}  // namespace cubit::tests
