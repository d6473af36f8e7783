// Cases of setp for 16-bit floats, alone and in pairs with a predicate for each half. PTX ISA, "Half Precision
// Comparison Instructions: setp".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

constexpr const char* kNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                  "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

struct CompareType {
  const char* name;
  std::uint64_t infinity;
  bool flushes;
};

/// Converts sign and magnitude to an integer with the order of the represented numbers.
std::int64_t ordered(const CompareType& type, std::uint64_t half) {
  const std::uint64_t magnitude = half & 0x7fff;
  if (type.flushes && magnitude < 0x400) return 0;  // subnormal
  return (half & 0x8000) != 0 ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
}

/// An ordered comparison is false for NaN. A comparison whose name ends in u is true for NaN.
bool holds(const CompareType& type, std::string_view name, std::uint64_t a, std::uint64_t b) {
  const bool unordered = (a & 0x7fff) > type.infinity || (b & 0x7fff) > type.infinity;
  if (name == "num") return !unordered;
  if (name == "nan") return unordered;
  if (unordered) return name.size() == 3;
  const std::int64_t x = ordered(type, a);
  const std::int64_t y = ordered(type, b);
  const std::string_view relation = name.substr(0, 2);
  if (relation == "eq") return x == y;
  if (relation == "ne") return x != y;
  if (relation == "lt") return x < y;
  if (relation == "le") return x <= y;
  if (relation == "gt") return x > y;
  return x >= y;
}

/// Bit i is the result of comparison i, for the low or for the high halves.
std::uint64_t all_of_halves(const CompareType& type, const Row& row, int shift) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    bits |= std::uint64_t{holds(type, kNames[i], row[0] >> shift & 0xffff, row[1] >> shift & 0xffff)} << i;
  return bits;
}

Rows rows_of(const CompareType& type, bool pair) {
  Rows rows = with_random_floats(combinations(float_corners(type.name), 2), type.name, 256, 1, 131);
  if (!pair) return rows;
  const Rows lows = rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& high = lows[(i * 7 + 3) % lows.size()];
    rows[i] = {rows[i][0] | high[0] << 16, rows[i][1] | high[1] << 16, 0, 0};
  }
  return rows;
}

void comparisons(Cases& cases, const CompareType& type, const char* flush) {
  std::string single = "mov.u32 %z0, 0;\n";
  std::string pair = "mov.u32 %z0, 0; mov.u32 %z1, 0;\n";
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    single += fmt::format("  setp.{}{}.{} %p0, %a0, %a1; selp.u32 %r0, {}, 0, %p0; or.b32 %z0, %z0, %r0;\n", kNames[i],
                          flush, type.name, 1U << i);
    pair += fmt::format(
        "  setp.{0}{1}.{2}x2 %p0|%p1, %a0, %a1; selp.u32 %r0, {3}, 0, %p0; selp.u32 %r1, {3}, 0, %p1; "
        "or.b32 %z0, %z0, %r0; or.b32 %z1, %z1, %r1;\n",
        kNames[i], flush, type.name, 1U << i);
  }
  add(cases,
      {.name = fmt::format("setp.*{}.{}", flush, type.name),
       .body = single,
       .sources = {2, 2},
       .results = {4},
       .model = [type](const Row& row) -> Row {
         return {all_of_halves(type, row, 0), 0, 0, 0};
       }},
      rows_of(type, false));
  add(cases,
      {.name = fmt::format("setp.*{}.{}x2", flush, type.name),
       .body = pair,
       .sources = {4, 4},
       .results = {4, 4},
       .model = [type](const Row& row) -> Row {
         return {all_of_halves(type, row, 0), all_of_halves(type, row, 16), 0, 0};
       }},
      rows_of(type, true));
}

/// With a third predicate, plain and negated.
void combined(Cases& cases, const CompareType& type, const char* operation) {
  const std::string opcode = fmt::format("setp.ltu.{}.{}x2", operation, type.name);
  add(cases,
      {.name = opcode,
       .body = fmt::format("setp.ne.u32 %p2, %a2, 0; {0} %p0|%p1, %a0, %a1, %p2; {0} %p3|%p4, %a0, %a1, !%p2; "
                           "selp.u32 %z0, 1, 0, %p0; selp.u32 %z1, 1, 0, %p1; selp.u32 %z2, 1, 0, %p3; "
                           "selp.u32 %z3, 1, 0, %p4;",
                           opcode),
       .sources = {4, 4, 4},
       .results = {4, 4, 4, 4},
       .model = [type, letter = operation[0]](const Row& row) -> Row {
         Row results{};
         for (std::size_t i = 0; i < 4; ++i) {
           const int shift = i % 2 == 0 ? 0 : 16;
           const bool left = holds(type, "ltu", row[0] >> shift & 0xffff, row[1] >> shift & 0xffff);
           const bool right = ((row[2] & 0xffffffff) != 0) == (i < 2);
           results[i] = letter == 'a' ? left && right : letter == 'o' ? left || right : left != right;
         }
         return results;
       }},
      [&] {
        Rows rows = rows_of(type, true);
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i][2] = i / 5 % 2;
        return rows;
      }());
}

}  // namespace

void add_compare(Cases& cases) {
  for (const CompareType& type : {CompareType{"f16", 0x7c00, false}, CompareType{"bf16", 0x7f80, false}}) {
    comparisons(cases, type, "");
    for (const char* operation : {"and", "or", "xor"}) combined(cases, type, operation);
  }
  comparisons(cases, {"f16", 0x7c00, true}, ".ftz");
}

}  // namespace cubit::conformance
