// Cases of single and double precision, with rounded and approximate division and roots. PTX ISA, "Floating Point
// Instructions".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

/// A case of `opcode` with `operands` registers of the format.
void plain(Cases& cases, const std::string& opcode, std::string_view format, int operands, Rule::Kind kind) {
  const int bytes = format == "f64" ? 8 : 4;
  std::string body = opcode + " %z0";
  for (int i = 0; i < operands; ++i) body += fmt::format(", %a{}", i);
  const std::size_t limit = operands == 3 ? 12000 : 4000;
  Rows rows = with_random(combinations(float_corners(format), operands, limit), 512, 31);
  rows = with_random_floats(std::move(rows), format, 1024, 12, 32);
  add(cases,
      {.name = opcode,
       .body = body + ";",
       .sources = std::vector<int>(static_cast<std::size_t>(operands), bytes),
       .results = {bytes},
       .rule = {.kind = kind, .format = format}},
      rows);
}

void single(Cases& cases) {
  for (const char* flush : {"", ".ftz"}) {
    for (const char* saturate : {"", ".sat"}) {
      for (const char* root : {"add", "sub", "mul", "add.rn", "sub.rn", "mul.rn"})
        plain(cases, fmt::format("{}{}{}.f32", root, flush, saturate), "f32", 2, Rule::Kind::exact);
      plain(cases, fmt::format("fma.rn{}{}.f32", flush, saturate), "f32", 3, Rule::Kind::exact);
      plain(cases, fmt::format("mad.rn{}{}.f32", flush, saturate), "f32", 3, Rule::Kind::exact);
    }
    for (const char* root : {"abs", "neg"})
      plain(cases, fmt::format("{}{}.f32", root, flush), "f32", 1, Rule::Kind::number);
    for (const char* root : {"rcp.rn", "sqrt.rn"})
      plain(cases, fmt::format("{}{}.f32", root, flush), "f32", 1, Rule::Kind::exact);
    plain(cases, fmt::format("div.rn{}.f32", flush), "f32", 2, Rule::Kind::exact);
    for (const char* root : {"min", "max"}) {
      for (const char* nan : {"", ".NaN"}) {
        for (const char* sign : {"", ".xorsign.abs"})
          plain(cases, fmt::format("{}{}{}{}.f32", root, flush, nan, sign), "f32", 2, Rule::Kind::exact);
      }
    }
  }
  plain(cases, "copysign.f32", "f32", 2, Rule::Kind::exact);
}

/// The ISA does not define NaN payloads of double precision.
void twice(Cases& cases) {
  for (const char* root : {"add", "sub", "mul", "add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max", "copysign"})
    plain(cases, fmt::format("{}.f64", root), "f64", 2, Rule::Kind::number);
  for (const char* root : {"fma.rn", "mad.rn"}) plain(cases, fmt::format("{}.f64", root), "f64", 3, Rule::Kind::number);
  for (const char* root : {"abs", "neg", "rcp.rn", "sqrt.rn"})
    plain(cases, fmt::format("{}.f64", root), "f64", 1, Rule::Kind::number);
}

}  // namespace

void add_float(Cases& cases) {
  single(cases);
  twice(cases);
}

}  // namespace cubit::conformance
