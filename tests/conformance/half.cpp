// Cases of 16-bit floats, alone and in pairs. PTX ISA, "Half Precision Floating Point Instructions".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

struct HalfType {
  const char* name;
  const char* format;
  int bytes;
};
constexpr HalfType kTypes[] = {{"f16", "f16", 2}, {"f16x2", "f16", 4}, {"bf16", "bf16", 2}, {"bf16x2", "bf16", 4}};

/// Pairs with different values in the two halves.
Rows paired(const Rows& rows) {
  Rows pairs;
  const std::size_t count = rows.size();
  for (std::size_t i = 0; i < count; ++i) {
    Row row{};
    for (std::size_t k = 0; k < row.size(); ++k)
      row[k] = (rows[i][k] & 0xffff) | (rows[(i * 7 + 3) % count][k] & 0xffff) << 16;
    pairs.push_back(row);
  }
  return pairs;
}

void plain(Cases& cases, const std::string& opcode, const HalfType& type, int operands, Rule::Kind kind) {
  std::string body = opcode + " %z0";
  for (int i = 0; i < operands; ++i) body += fmt::format(", %a{}", i);
  Rows rows = operands == 1 ? exhaustive16() : combinations(float_corners(type.format), operands, 8000);
  if (operands > 1) rows = with_random_floats(with_random(std::move(rows), 1024, 41), type.format, 1024, 6, 42);
  add(cases,
      {.name = opcode,
       .body = body + ";",
       .sources = std::vector<int>(static_cast<std::size_t>(operands), type.bytes),
       .results = {type.bytes},
       .rule = {.kind = kind, .format = type.format}},
      type.bytes == 4 ? paired(rows) : rows);
}

void arithmetic(Cases& cases, const HalfType& type) {
  const bool brain = type.format[0] == 'b';
  for (const char* flush : {"", ".ftz"}) {
    if (brain && flush[0] != 0) continue;
    for (const char* root : {"add", "sub", "mul"}) {
      for (const char* rounding : {"", ".rn"}) {
        for (const char* saturate : {"", ".sat"}) {
          if (brain && saturate[0] != 0) continue;
          plain(cases, fmt::format("{}{}{}{}.{}", root, rounding, flush, saturate, type.name), type, 2,
                Rule::Kind::exact);
        }
      }
    }
    for (const char* end : {"", ".sat", ".relu"}) {
      if (brain && end[0] != 0 && end[1] == 's') continue;
      plain(cases, fmt::format("fma.rn{}{}.{}", flush, end, type.name), type, 3, Rule::Kind::exact);
    }
  }
}

void others(Cases& cases, const HalfType& type) {
  const bool brain = type.format[0] == 'b';
  for (const char* flush : {"", ".ftz"}) {
    if (brain && flush[0] != 0) continue;
    for (const char* root : {"abs", "neg"})
      plain(cases, fmt::format("{}{}.{}", root, flush, type.name), type, 1, Rule::Kind::number);
    for (const char* root : {"min", "max"}) {
      for (const char* nan : {"", ".NaN"}) {
        for (const char* sign : {"", ".xorsign.abs"})
          plain(cases, fmt::format("{}{}{}{}.{}", root, flush, nan, sign, type.name), type, 2, Rule::Kind::exact);
      }
    }
  }
}

}  // namespace

void add_half(Cases& cases) {
  for (const HalfType& type : kTypes) {
    arithmetic(cases, type);
    others(cases, type);
  }
}

}  // namespace cubit::conformance
