// Approximate instructions, each within the error that the PTX ISA states for it.
#include <fmt/format.h>

#include <cmath>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

struct Function {
  const char* opcode;
  const char* format;
  Rule bound;     ///< PTX ISA, section of the instruction
  bool in_range;  ///< the bound holds for arguments near zero only
};

double power(int exponent) { return std::ldexp(1.0, exponent); }

/// Spread over all exponents and signs; `count` values of each format of 32 bits, all specials.
Rows arguments(std::string_view format, bool in_range) {
  const Rows corners = all_of(float_corners(format));
  if (in_range) return with_random_floats(all_of({0, 0x80000000, 0x7fc00000}), format, 700, 1, 51);
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
  Rows rows = arguments(format, given.in_range);
  if (operands == 2) {
    rows = with_random_floats(combinations(float_corners(format), 2, 700), format, 400, 30, 54);
  } else if (bytes == 2) {
    rows = exhaustive16();
  } else if (pair) {
    rows.clear();
    for (std::uint64_t i = 0; i < 0x10000; i += 61) rows.push_back({i | (i * 7919 % 0x10000) << 16, 0, 0, 0});
  }
  add(cases,
      {.name = opcode,
       .body = fmt::format("{} %z0, %a0{};", opcode, operands == 2 ? ", %a1" : ""),
       .sources = std::vector<int>(static_cast<std::size_t>(operands), bytes),
       .results = {bytes},
       .rule = rule},
      rows);
}

}  // namespace

// The CPU device rounds correctly, so it is within half a unit of the exact result: each bound is the ISA's and a unit.
void add_functions(Cases& cases) {
  for (const char* flush : {"", ".ftz"}) {
    const auto name = [&](const char* root) { return fmt::format("{}{}.f32", root, flush); };
    function(cases, {name("rcp.approx").c_str(), "f32", {.ulps = 2}, false}, 1);
    function(cases, {name("sqrt.approx").c_str(), "f32", {.ulps = 1, .relative = power(-22)}, false}, 1);
    function(cases, {name("rsqrt.approx").c_str(), "f32", {.ulps = 1, .relative = power(-22)}, false}, 1);
    function(cases, {name("ex2.approx").c_str(), "f32", {.ulps = 3}, false}, 1);
    function(cases, {name("lg2.approx").c_str(), "f32", {.absolute = power(-22), .relative = power(-22)}, false}, 1);
    function(cases, {name("sin.approx").c_str(), "f32", {.absolute = power(-20)}, true}, 1);
    function(cases, {name("cos.approx").c_str(), "f32", {.absolute = power(-20)}, true}, 1);
    function(cases, {name("div.full").c_str(), "f32", {.ulps = 3}, false}, 2);
    function(cases, {name("div.approx").c_str(), "f32", {.ulps = 3}, false}, 2);
  }
  function(cases, {"tanh.approx.f32", "f32", {.relative = power(-10)}, false}, 1);
  function(cases, {"rcp.approx.ftz.f64", "f64", {.relative = power(-19)}, false}, 1);
  function(cases, {"rsqrt.approx.ftz.f64", "f64", {.relative = power(-19)}, false}, 1);
  function(cases, {"rsqrt.approx.f64", "f64", {.relative = power(-19)}, false}, 1);
  for (const char* pair : {"", "x2"}) {
    const auto name = [&](const char* root) { return fmt::format("{}{}", root, pair); };
    function(cases, {name("ex2.approx.f16").c_str(), "f16", {.ulps = 1, .relative = 0.00105}, false}, 1);
    function(cases, {name("ex2.approx.ftz.bf16").c_str(), "bf16", {.ulps = 1, .relative = power(-7)}, false}, 1);
    function(cases, {name("tanh.approx.f16").c_str(), "f16", {.ulps = 1, .absolute = 0.0005}, false}, 1);
    function(cases, {name("tanh.approx.bf16").c_str(), "bf16", {.ulps = 1, .absolute = power(-8)}, false}, 1);
  }
}

}  // namespace cubit::conformance
