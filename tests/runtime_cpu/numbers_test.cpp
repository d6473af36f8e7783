// Compares conversions and 16-bit arithmetic with a model of integers (exact.hpp) that is independent of the executor.
// Tests every value of 8 and 16 bits, and the 32-bit values at which roundings differ.
#include <algorithm>
#include <functional>

#include "tests/runtime_cpu/exact.hpp"
#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

struct Direction {
  const char* name;
  To to;
};
constexpr Direction kDirections[] = {{"rn", To::nearest}, {"rz", To::zero}, {"rm", To::down}, {"rp", To::up}};

/// A result that rounds to zero keeps its sign.
std::uint64_t expected_float(const Layout& format, const Decoded& value, To direction, bool finite = false) {
  if (value.is_nan) return format.nan();
  const std::uint64_t sign = value.is_negative ? format.sign() : 0;
  if (value.is_infinite) return sign | (finite ? format.largest() : format.largest() + 1);
  return sign | rounded(format, Exact(value), direction, finite);
}

std::vector<Row> every(std::uint32_t count) {
  std::vector<Row> rows;
  for (std::uint32_t bits = 0; bits < count; ++bits) rows.push_back({bits, bits ^ 0x5a5a, 0});
  return rows;
}

void expect_all(const std::string& instruction, const std::vector<Row>& rows,
                const std::function<std::uint64_t(const Row& row)>& expected) {
  SCOPED_TRACE(instruction);
  const std::vector<std::uint32_t> results = results_of(instruction, rows);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows.size() && wrong < 3; ++i) {
    if (results[i] == expected(rows[i])) continue;
    ++wrong;
    ADD_FAILURE() << std::hex << rows[i][0] << ", " << rows[i][1] << ", " << rows[i][2] << " gave " << results[i]
                  << ", expected " << expected(rows[i]);
  }
}

TEST(Numbers, TheModelKnowsKnownNumbers) {
  EXPECT_EQ(rounded(kF16, Exact({.mantissa = 65519}), To::nearest), 0x7bffu);
  EXPECT_EQ(rounded(kF16, Exact({.mantissa = 65520}), To::nearest), 0x7c00u);
  EXPECT_EQ(rounded(kF16, Exact({.mantissa = -65520}), To::zero), 0xfbffu);
  EXPECT_EQ(rounded(kE4m3, Exact({.mantissa = 464}), To::nearest), 0x7eu);
  EXPECT_EQ(rounded(kF32, Exact({.mantissa = 1, .exponent = -150}), To::nearest), 0u);
  EXPECT_EQ(rounded(kF32, Exact({.mantissa = 1, .exponent = -150}), To::up), 1u);
  EXPECT_EQ(rounded(kBf16, Exact(kF32.decode(0x3f808000)), To::nearest), 0x3f80u);
  EXPECT_EQ(rounded(kBf16, Exact(kF32.decode(0x3f818000)), To::nearest), 0x3f82u);
  EXPECT_TRUE(rounded_integer({.mantissa = -5, .exponent = -1}, To::nearest, -100, 100) == -2);
}

TEST(Numbers, EveryEightBitFloatBecomesAHalf) {
  for (const Layout& from : {kE4m3, kE5m2}) {
    expect_all(std::string("cvt.u16.u32 %s0, %r0; cvt.rn.f16x2.") + from.name + "x2 %r3, %s0;", every(0x10000),
               [&](const Row& row) {
                 const auto half = [&](std::uint32_t bits) {
                   return expected_float(kF16, from.decode(bits & 0xff), To::nearest);
                 };
                 return half(row[0] >> 8) << 16 | half(row[0]);
               });
  }
}

TEST(Numbers, EveryHalfBecomesASmallerOrLargerFloat) {
  for (const Layout& to : {kE4m3, kE5m2}) {
    expect_all(std::string("mov.b32 {%s0, %s1}, %r0; mov.b32 %r4, {%s0, %s0}; cvt.rn.satfinite.") + to.name +
                   "x2.f16x2 %s2, %r4; cvt.u32.u16 %r3, %s2;",
               every(0x10000),
               [&](const Row& row) { return expected_float(to, kF16.decode(row[0]), To::nearest, true) * 0x101; });
  }
  expect_all("cvt.u16.u32 %s0, %r0; cvt.f32.f16 %f0, %s0; mov.b32 %r3, %f0;", every(0x10000),
             [](const Row& row) { return expected_float(kF32, kF16.decode(row[0]), To::nearest); });
  expect_all("cvt.u16.u32 %s0, %r0; cvt.f32.bf16 %f0, %s0; mov.b32 %r3, %f0;", every(0x10000),
             [](const Row& row) { return std::uint64_t{row[0]} << 16; });
  for (const Direction& direction : kDirections) {
    expect_all(std::string("cvt.u16.u32 %s0, %r0; cvt.f32.bf16 %f0, %s0; cvt.") + direction.name +
                   ".f16.f32 %s1, %f0; cvt.u32.u16 %r3, %s1;",
               every(0x10000),
               [&](const Row& row) { return expected_float(kF16, kBf16.decode(row[0]), direction.to); });
  }
}

TEST(Numbers, EveryHalfBecomesAnIntegerInEachDirection) {
  for (const Layout& from : {kF16, kBf16}) {
    for (const int bits : {16, 32}) {
      for (const char sign : {'u', 's'}) {
        const Wide lowest = sign == 's' ? -(Wide{1} << (bits - 1)) : 0;
        const Wide highest = (Wide{1} << (sign == 's' ? bits - 1 : bits)) - 1;
        for (const Direction& direction : kDirections) {
          const std::string target = sign + std::to_string(bits);
          const std::string result = bits == 16 ? "%s1, %s0; cvt.u32.u16 %r3, %s1;" : "%r3, %s0;";
          expect_all("cvt.u16.u32 %s0, %r0; cvt." + std::string(direction.name) + "i." + target + "." + from.name +
                         " " + result,
                     every(0x10000), [&](const Row& row) -> std::uint64_t {
                       const Decoded number = from.decode(row[0]);
                       if (number.is_nan) return 0;
                       const Wide whole = number.is_infinite ? (number.is_negative ? lowest : highest)
                                                             : rounded_integer(number, direction.to, lowest, highest);
                       return static_cast<std::uint64_t>(whole) & (~0ULL >> (64 - bits));
                     });
        }
      }
    }
  }
}

/// Values as f32: around every number of the format that `step` selects, and one unit around the middle to the next
/// number.
std::vector<Row> parting_values(const Layout& format, std::uint64_t step) {
  std::vector<Row> rows;
  for (const std::uint32_t bits : float_corners()) rows.push_back({bits, 0, 0});
  for (std::uint64_t bits = 0; bits <= format.largest(); bits += step) {
    Exact middle(format.decode(bits));
    middle.add(format.decode(std::min(bits + 1, format.largest())), 1);
    Decoded number = format.decode(bits);
    const auto single = static_cast<std::uint32_t>(rounded(kF32, Exact(number), To::nearest));
    // Half of an f32 above the subnormals has the same mantissa and an exponent less by one.
    const auto twice = static_cast<std::uint32_t>(rounded(kF32, middle, To::nearest));
    const std::uint32_t half = twice >= 0x01000000 && twice < 0x7f800000 ? twice - 0x00800000 : single + 1;
    const std::uint32_t sign = bits % 3 == 1 ? 0x80000000 : 0;
    for (const std::uint32_t value : {single, single + 1, single == 0 ? 0 : single - 1, half, half + 1, half - 1})
      rows.push_back({value | sign, 0, 0});
  }
  for (const std::uint32_t value : {0x477fe000, 0x477ff000, 0x477fefff, 0x477fffff, 0x7f7f7fff, 0x7f7f8000, 0x7f7fefff,
                                    0x43e00000, 0x43e80000, 0x43e80001, 0x47600000, 0x47700000, 0x47700001})
    rows.push_back({value, 0, 0});
  return rows;
}

TEST(Numbers, SinglePrecisionIsNarrowedOnce) {
  struct Narrowing {
    Layout to;
    std::uint64_t step;
    const char* template_text;  ///< with a place for the rounding mode
    bool finite = false;
  };
  for (const Narrowing& given :
       {Narrowing{kF16, 3, "cvt.{}.f16.f32 %s0, %r0; cvt.u32.u16 %r3, %s0;"},
        Narrowing{kF16, 7, "cvt.{}.satfinite.f16.f32 %s0, %r0; cvt.u32.u16 %r3, %s0;", true},
        Narrowing{kBf16, 3, "cvt.{}.bf16.f32 %s0, %r0; cvt.u32.u16 %r3, %s0;"},
        Narrowing{kBf16, 7, "cvt.{}.satfinite.bf16.f32 %s0, %r0; cvt.u32.u16 %r3, %s0;", true}}) {
    for (const Direction& direction : kDirections) {
      const bool directed = direction.to == To::down || direction.to == To::up;
      if (directed && (given.finite || given.to.exponent_bits == 8)) continue;  // not in the ISA
      std::string text = given.template_text;
      text.replace(text.find("{}"), 2, direction.name);
      expect_all(text, parting_values(given.to, given.step), [&](const Row& row) {
        return expected_float(given.to, kF32.decode(row[0]), direction.to, given.finite);
      });
    }
  }
  for (const Layout& to : {kE4m3, kE5m2}) {
    expect_all(std::string("cvt.rn.satfinite.") + to.name + "x2.f32 %s0, %r0, %r0; cvt.u32.u16 %r3, %s0;",
               parting_values(to, 1),
               [&](const Row& row) { return expected_float(to, kF32.decode(row[0]), To::nearest, true) * 0x101; });
  }
  for (const Direction& direction : {kDirections[0], kDirections[1]}) {
    expect_all(std::string("cvt.") + direction.name + ".tf32.f32 %r3, %r0;", parting_values(kTf32, 37),
               [&](const Row& row) {
                 const Decoded value = kF32.decode(row[0]);
                 return value.is_nan ? 0x7fffe000 : expected_float(kTf32, value, direction.to) << 13;
               });
  }
}

/// IEEE 754: results that are not finite, and the sign of a zero.
std::uint64_t expected_sum(const Layout& format, const Decoded& a, const Decoded& b, const Decoded& c) {
  const bool product_negative = a.is_negative != b.is_negative;
  const bool product_infinite = a.is_infinite || b.is_infinite;
  const auto is_zero = [](const Decoded& x) { return x.mantissa == 0 && !x.is_infinite; };
  if (a.is_nan || b.is_nan || c.is_nan || (product_infinite && (is_zero(a) || is_zero(b)))) return format.nan();
  if (product_infinite && c.is_infinite && product_negative != c.is_negative) return format.nan();
  if (product_infinite || c.is_infinite) {
    const bool negative = product_infinite ? product_negative : c.is_negative;
    return (format.largest() + 1) | (negative ? format.sign() : 0);
  }
  Exact sum(c);
  sum.add_product(a, b);
  const bool both_negative = product_negative && c.is_negative;
  if (sum.sign() == 0) return (is_zero(a) || is_zero(b)) && c.mantissa == 0 && both_negative ? format.sign() : 0;
  const std::uint64_t bits = rounded(format, sum, To::nearest);
  return sum.sign() < 0 ? bits | format.sign() : bits;
}

std::vector<std::uint32_t> half_corners(const Layout& format) {
  const auto unit = static_cast<std::uint32_t>(1) << format.mantissa_bits;
  const auto one = static_cast<std::uint32_t>(format.bias()) * unit;
  const auto infinity = static_cast<std::uint32_t>(format.largest()) + 1;
  std::vector<std::uint32_t> corners;
  for (const std::uint32_t bits :
       {0u, 1u, unit / 2 + 1, unit - 1, unit, unit + 1, one - unit * 5 + 3, one - 1, one, one + 1, one + unit / 2,
        one + unit + 3, one + unit * 11 + 1, infinity - unit, infinity - 1, infinity, infinity + 1}) {
    corners.push_back(bits);
    corners.push_back(bits | static_cast<std::uint32_t>(format.sign()));
  }
  return corners;
}

TEST(Numbers, HalvesAreAddedAndMultipliedExactlyThenRounded) {
  for (const Layout& format : {kF16, kBf16}) {
    const std::vector<Row> pairs = rows_of(half_corners(format), 2);
    const std::vector<Row> triples = rows_of(half_corners(format), 3);
    const Decoded one = format.decode(static_cast<std::uint64_t>(format.bias()) << format.mantissa_bits);
    const auto text = [&](const char* opcode, const char* operands) {
      return std::string("cvt.u16.u32 %s0, %r0; cvt.u16.u32 %s1, %r1; cvt.u16.u32 %s2, %r2; ") + opcode + "." +
             format.name + " %s3, " + operands + "; cvt.u32.u16 %r3, %s3;";
    };
    const auto number = [&](std::uint32_t bits) { return format.decode(bits & 0xffff); };
    expect_all(text("add", "%s0, %s1"), pairs,
               [&](const Row& row) { return expected_sum(format, number(row[0]), one, number(row[1])); });
    expect_all(text("sub", "%s0, %s1"), pairs, [&](const Row& row) {
      const auto flipped = row[1] ^ static_cast<std::uint32_t>(format.sign());
      return expected_sum(format, number(row[0]), one, number(flipped));
    });
    expect_all(text("mul", "%s0, %s1"), pairs, [&](const Row& row) {
      Decoded zero;
      zero.is_negative = number(row[0]).is_negative != number(row[1]).is_negative;  // keeps the sign of the product
      return expected_sum(format, number(row[0]), number(row[1]), zero);
    });
    expect_all(text("fma.rn", "%s0, %s1, %s2"), triples,
               [&](const Row& row) { return expected_sum(format, number(row[0]), number(row[1]), number(row[2])); });
  }
}

}  // namespace
}  // namespace cubit::tests
