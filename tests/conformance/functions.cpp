// Cases of approximate instructions, each within the error that the PTX ISA states for it.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

/// The range of arguments for which the bound holds.
enum class Range { all, two_pi, hundred_pi };

struct Function {
  const char* opcode;
  const char* format;
  Rule bound;  ///< the bound of the PTX ISA; the comment at each case names the section
  Range range = Range::all;
  const char* suffix = "";  ///< suffix of the name
};

double power(double exponent) { return std::exp2(exponent); }

Rows angles(Range range) {
  Rows rows = all_of({0, 0x80000000, 0x7fc00000});
  if (range == Range::two_pi) return with_random_floats(rows, "f32", 700, 1, 51);  // below 4
  for (const Row& row : with_random_floats({}, "f32", 1500, 8, 55)) {
    if (std::abs(std::bit_cast<float>(static_cast<std::uint32_t>(row[0]))) < 314) rows.push_back(row);
  }
  return rows;
}

/// Arguments spread over all exponents and signs: `count` values of each 32-bit format, and all special values.
Rows arguments(std::string_view format, Range range) {
  if (range != Range::all) return angles(range);
  const Rows corners = all_of(float_corners(format));
  return with_random_floats(with_random(with_random_floats(corners, format, 400, 3, 51), 300, 52), format, 300, 30, 53);
}

void function(Cases& cases, const Function& given, int operands) {
  const std::string_view format = given.format;
  const std::string opcode = given.opcode;
  const bool pair = opcode.ends_with("x2");
  const int bytes = format == "f64" ? 8 : format == "f32" || pair ? 4 : 2;
  Rule rule = given.bound;
  rule.kind = Rule::Kind::near;
  rule.format = format;
  Rows rows = arguments(format, given.range);
  if (operands == 2) {
    rows = with_random_floats(combinations(float_corners(format), 2, 700), format, 400, 30, 54);
  } else if (bytes == 2) {
    rows = exhaustive16();
  } else if (pair) {
    rows.clear();
    for (std::uint64_t i = 0; i < 0x10000; i += 61) rows.push_back({i | (i * 7919 % 0x10000) << 16, 0, 0, 0});
  }
  add(cases,
      {.name = opcode + given.suffix,
       .body = fmt::format("{} %z0, %a0{};", opcode, operands == 2 ? ", %a1" : ""),
       .sources = std::vector<int>(static_cast<std::size_t>(operands), bytes),
       .results = {bytes},
       .rule = rule},
      rows);
}

}  // namespace

/// PTX ISA 9.1, sections 9.7.3 and 9.7.4.
void add_functions(Cases& cases) {
  for (const char* flush : {"", ".ftz"}) {
    const auto add_one = [&](const char* root, const Rule& bound, int operands = 1, Range range = Range::all,
                             const char* suffix = "") {
      function(cases, {fmt::format("{}{}.f32", root, flush).c_str(), "f32", bound, range, suffix}, operands);
    };
    add_one("div.approx", {.ulps = 2}, 2);                                // 9.7.3.8
    add_one("div.full", {.ulps = 2}, 2);                                  // 9.7.3.8
    add_one("rcp.approx", {.ulps = 1});                                   // 9.7.3.13
    add_one("sqrt.approx", {.relative = power(-23)});                     // 9.7.3.15
    add_one("rsqrt.approx", {.relative = power(-22.9)});                  // 9.7.3.16
    add_one("sin.approx", {.absolute = power(-20.5)}, 1, Range::two_pi);  // 9.7.3.18
    add_one("sin.approx", {.absolute = power(-14.7)}, 1, Range::hundred_pi, " wide");
    add_one("cos.approx", {.absolute = power(-20.5)}, 1, Range::two_pi);  // 9.7.3.19
    add_one("cos.approx", {.absolute = power(-14.7)}, 1, Range::hundred_pi, " wide");
    add_one("lg2.approx", {.absolute = power(-22), .relative = power(-22)});  // 9.7.3.20
    add_one("ex2.approx", {.ulps = 2});                                       // 9.7.3.21
  }
  function(cases, {"tanh.approx.f32", "f32", {.relative = power(-11)}}, 1);  // 9.7.3.22
  // The ISA states no bound for the following instructions. The first two read and write 20 bits; the third is compared
  // with a correctly rounded result.
  function(cases, {"rcp.approx.ftz.f64", "f64", {.relative = power(-19)}}, 1);    // 9.7.3.14
  function(cases, {"rsqrt.approx.ftz.f64", "f64", {.relative = power(-19)}}, 1);  // 9.7.3.17
  function(cases, {"rsqrt.approx.f64", "f64", {.ulps = 1}}, 1);                   // 9.7.3.16
  for (const char* pair : {"", "x2"}) {
    const auto add_one = [&](const char* root, const char* format, const Rule& bound) {
      function(cases, {fmt::format("{}{}", root, pair).c_str(), format, bound}, 1);
    };
    add_one("tanh.approx.f16", "f16", {.absolute = power(-10.987)});  // 9.7.4.9
    add_one("tanh.approx.bf16", "bf16", {.absolute = power(-8)});     // 9.7.4.9
    // One unit is allowed for subnormal results, where an H200 exceeds the bound that the ISA states.
    add_one("ex2.approx.f16", "f16", {.ulps = 1, .relative = power(-9.9)});  // 9.7.4.10
    add_one("ex2.approx.ftz.bf16", "bf16", {.relative = power(-7)});         // 9.7.4.10
  }
}

}  // namespace cubit::conformance
