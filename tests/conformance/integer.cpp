// Cases of integer arithmetic. PTX ISA, "Integer Arithmetic Instructions".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

constexpr std::size_t kRandom = 512;

struct IntegerType {
  const char* name;
  int bits;
};
constexpr IntegerType kTypes[] = {{"u16", 16}, {"s16", 16}, {"u32", 32}, {"s32", 32}, {"u64", 64}, {"s64", 64}};

/// A case of `opcode` with `operands` registers of `bytes` bytes each; the result has `result` bytes.
void plain(Cases& cases, const std::string& opcode, int operands, int bytes, int result = 0) {
  std::string body = opcode + " %z0";
  for (int i = 0; i < operands; ++i) body += fmt::format(", %a{}", i);
  const Rows rows = with_random(combinations(integer_corners(8 * bytes), operands, 8000), kRandom, 11);
  add(cases,
      {.name = opcode,
       .body = body + ";",
       .sources = std::vector<int>(static_cast<std::size_t>(operands), bytes),
       .results = {result == 0 ? bytes : result}},
      rows);
}

void products(Cases& cases, const IntegerType& type) {
  for (const char* part : {"lo", "hi", "wide"}) {
    const bool wide = part[0] == 'w';
    if (wide && type.bits == 64) continue;
    const int bytes = type.bits / 8;
    const int result = wide ? 2 * bytes : bytes;
    plain(cases, fmt::format("mul.{}.{}", part, type.name), 2, bytes, result);
    const std::string opcode = fmt::format("mad.{}.{}", part, type.name);
    const Values corners = integer_corners(type.bits);
    add(cases,
        {.name = opcode,
         .body = opcode + " %z0, %a0, %a1, %a2;",
         .sources = {bytes, bytes, result},
         .results = {result}},
        with_random(combinations(corners, 3, 8000), kRandom, 12));
  }
}

/// Divisors are never zero, because the ISA leaves that result open. Another case tests zero.
void quotients(Cases& cases, const IntegerType& type) {
  for (const char* root : {"div", "rem"}) {
    const std::string opcode = fmt::format("{}.{}", root, type.name);
    Rows rows = with_random(combinations(integer_corners(type.bits), 2), kRandom, 13);
    Rows zeros;
    for (Row& row : rows) {
      if ((row[1] & ~0ULL >> (64 - type.bits)) != 0) continue;
      zeros.push_back(row);
      row[1] = 5;
    }
    const Elementwise given{.name = opcode,
                            .body = opcode + " %z0, %a0, %a1;",
                            .sources = {type.bits / 8, type.bits / 8},
                            .results = {type.bits / 8}};
    add(cases, given, rows);
    Elementwise by_zero = given;
    by_zero.name += " by zero";
    add(cases, by_zero, zeros);
  }
}

void dot_products(Cases& cases) {
  for (const char* a : {"u32", "s32"}) {
    for (const char* b : {"u32", "s32"}) {
      plain(cases, fmt::format("dp4a.{}.{}", a, b), 3, 4);
      plain(cases, fmt::format("dp2a.lo.{}.{}", a, b), 3, 4);
      plain(cases, fmt::format("dp2a.hi.{}.{}", a, b), 3, 4);
    }
  }
}

}  // namespace

void add_integer(Cases& cases) {
  for (const IntegerType& type : kTypes) {
    const int bytes = type.bits / 8;
    for (const char* root : {"add", "sub", "min", "max"}) plain(cases, fmt::format("{}.{}", root, type.name), 2, bytes);
    plain(cases, fmt::format("sad.{}", type.name), 3, bytes);
    products(cases, type);
    quotients(cases, type);
    if (type.name[0] != 's') continue;
    plain(cases, fmt::format("abs.{}", type.name), 1, bytes);
    plain(cases, fmt::format("neg.{}", type.name), 1, bytes);
  }
  for (const char* opcode : {"add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32"}) plain(cases, opcode, 2, 4);
  dot_products(cases);
}

}  // namespace cubit::conformance
