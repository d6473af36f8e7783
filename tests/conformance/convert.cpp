// Cases of cvt: between integers, between floats, between integers and floats, packed and 8-bit formats. PTX ISA,
// "cvt".
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

struct Integer {
  const char* name;
  int bits;
};
constexpr Integer kIntegers[] = {{"u8", 8},   {"s8", 8},   {"u16", 16}, {"s16", 16},
                                 {"u32", 32}, {"s32", 32}, {"u64", 64}, {"s64", 64}};

struct Float {
  const char* name;
  int bytes;
};
constexpr Float kFloats[] = {{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}};

/// There is no conversion between bf16 and 8-bit integers.
bool is_missing(const Float& one, const Integer& other) { return one.name[0] == 'b' && other.bits == 8; }

int register_bytes(int bits) { return bits < 16 ? 2 : bits / 8; }

Rows integer_rows(int bits) {
  if (bits <= 16) return exhaustive16();
  return with_random(all_of(integer_corners(bits)), 1024, 61);
}

/// .sat is for conversions whose result can leave the range.
bool fits(const Integer& from, const Integer& to) {
  const bool to_signed = to.name[0] == 's';
  if (from.name[0] == 's') return to_signed && from.bits <= to.bits;
  return from.bits <= to.bits - (to_signed ? 1 : 0);
}

void between_integers(Cases& cases) {
  for (const Integer& from : kIntegers) {
    for (const Integer& to : kIntegers) {
      for (const char* saturate : {"", ".sat"}) {
        if (&from == &to || (saturate[0] != 0 && fits(from, to))) continue;
        const std::string opcode = fmt::format("cvt{}.{}.{}", saturate, to.name, from.name);
        add(cases,
            {.name = opcode,
             .body = opcode + " %z0, %a0;",
             .sources = {register_bytes(from.bits)},
             .results = {to.bits == 8 ? 4 : to.bits / 8}},
            integer_rows(from.bits));
      }
    }
  }
}

/// Integers and half-integers (ties) around zero and around the limits of every integer type, then the usual corners.
Rows float_rows(std::string_view format) {
  Rows rows = all_of(float_corners(format));
  if (format == "f16" || format == "bf16") return exhaustive16();
  const auto append = [&](double value) {
    for (const double signed_value : {value, -value}) {
      rows.push_back({format == "f32" ? std::bit_cast<std::uint32_t>(static_cast<float>(signed_value))
                                      : std::bit_cast<std::uint64_t>(signed_value),
                      0, 0, 0});
    }
  };
  for (int quarter = 0; quarter < 20; ++quarter) append(quarter / 4.0);
  for (const int bits : {7, 8, 15, 16, 22, 23, 24, 31, 32, 51, 52, 53, 63, 64}) {
    const double limit = std::ldexp(1.0, bits);
    for (const double offset : {-2.0, -1.5, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 1.5}) append(limit + offset);
    append(std::nextafter(limit, 0));
    append(static_cast<double>(std::nextafter(static_cast<float>(limit), 0.0F)));
  }
  // Quiet and signalling NaN with payload bits that a conversion can lose.
  if (format == "f32") rows.insert(rows.end(), {{0x7fa12345, 0, 0, 0}, {0xffd54321, 0, 0, 0}});
  if (format == "f64") rows.insert(rows.end(), {{0x7ff4321fedcba987, 0, 0, 0}, {0xfff9abcdef012345, 0, 0, 0}});
  rows = with_random_floats(std::move(rows), format, 1024, 20, 62);
  return with_random_floats(with_random(std::move(rows), 256, 63), format, 512, 66, 64);
}

/// The four roundings to an integer in one kernel.
void to_integers(Cases& cases) {
  for (const Float& from : kFloats) {
    for (const Integer& to : kIntegers) {
      for (const char* flush : {"", ".ftz"}) {
        if ((flush[0] != 0 && from.bytes != 4) || is_missing(from, to)) continue;
        std::string body;
        int index = 0;
        for (const char* rounding : {"rni", "rzi", "rmi", "rpi"})
          body += fmt::format("cvt.{}{}.{}.{} %z{}, %a0; ", rounding, flush, to.name, from.name, index++);
        add(cases,
            {.name = fmt::format("cvt.(rni,rzi,rmi,rpi){}.{}.{}", flush, to.name, from.name),
             .body = body,
             .sources = {from.bytes},
             .results = std::vector<int>(4, to.bits == 8 ? 4 : to.bits / 8)},
            float_rows(from.name));
      }
    }
  }
}

void from_integers(Cases& cases) {
  for (const Integer& from : kIntegers) {
    for (const Float& to : kFloats) {
      if (is_missing(to, from)) continue;
      std::string body;
      int index = 0;
      for (const char* rounding : {"rn", "rz", "rm", "rp"})
        body += fmt::format("cvt.{}.{}.{} %z{}, %a0; ", rounding, to.name, from.name, index++);
      add(cases,
          {.name = fmt::format("cvt.(rn,rz,rm,rp).{}.{}", to.name, from.name),
           .body = body,
           .sources = {register_bytes(from.bits)},
           .results = std::vector<int>(4, to.bytes)},
          integer_rows(from.bits));
    }
  }
}

/// For a small format: every value, the middle to the next value, and both neighbours of that middle, as f32.
Rows boundaries(int exponent_bits, int mantissa_bits) {
  Rows rows;
  const int shift = 23 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  for (int i = 0; i < 1 << (exponent_bits + mantissa_bits); ++i) {
    const int exponent = i >> mantissa_bits;
    const int mantissa = i & ((1 << mantissa_bits) - 1);
    const float value =
        exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                      : std::ldexp(static_cast<float>(mantissa | 1 << mantissa_bits), exponent - bias - mantissa_bits);
    const float unit = std::ldexp(1.0F, std::max(exponent, 1) - bias - mantissa_bits);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto middle =
        exponent_bits == 8 ? bits + (1U << (shift - 1)) : std::bit_cast<std::uint32_t>(value + unit / 2);
    const std::uint64_t sign = i % 3 == 0 ? 0x80000000 : 0;
    for (const std::uint64_t magnitude : {bits, middle - 1, middle, middle + 1})
      rows.push_back({magnitude | sign, 0, 0, 0});
  }
  return rows;
}

Rows narrowing(std::string_view to) {
  Rows rows = all_of(float_corners("f32"));
  for (const Row& row : float_rows("f32")) rows.push_back(row);
  const Rows edges = to == "e4m3"   ? boundaries(4, 3)
                     : to == "e5m2" ? boundaries(5, 2)
                     : to == "f16"  ? boundaries(5, 10)
                                    : boundaries(8, 7);
  rows.insert(rows.end(), edges.begin(), edges.end());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i][1] = rows[(i * 31 + 5) % rows.size()][0];
  return rows;
}

void one(Cases& cases, const std::string& opcode, int from, int to, const Rows& rows, int sources = 1,
         Rule::Kind kind = Rule::Kind::exact, std::string_view format = {}) {
  add(cases,
      {.name = opcode,
       .body = opcode + (sources == 1 ? " %z0, %a0;" : " %z0, %a0, %a1;"),
       .sources = std::vector<int>(static_cast<std::size_t>(sources), from),
       .results = {to},
       .rule = {.kind = kind, .format = format}},
      rows);
}

void to_halves(Cases& cases) {
  for (const char* to : {"f16", "bf16"}) {
    const bool brain = to[0] == 'b';
    const Rows rows = narrowing(to);
    for (const char* rounding : {"rn", "rz"}) {
      for (const char* relu : {"", ".relu"}) {
        for (const char* finite : {"", ".satfinite"}) {
          one(cases, fmt::format("cvt.{}{}{}.{}.f32", rounding, relu, finite, to), 4, 2, rows);
          one(cases, fmt::format("cvt.{}{}{}.{}x2.f32", rounding, relu, finite, to), 4, 4, rows, 2);
        }
      }
    }
    for (const char* rounding : {"rn", "rz", "rm", "rp"}) {
      if (!brain || rounding[1] == 'n') one(cases, fmt::format("cvt.{}.{}.f64", rounding, to), 8, 2, float_rows("f64"));
      if (brain) continue;
      if (rounding[1] == 'm' || rounding[1] == 'p') one(cases, fmt::format("cvt.{}.f16.f32", rounding), 4, 2, rows);
      one(cases, fmt::format("cvt.{}.ftz.f16.f32", rounding), 4, 2, rows);
      one(cases, fmt::format("cvt.{}.sat.f16.f32", rounding), 4, 2, rows);
    }
  }
  one(cases, "cvt.rn.bf16.f16", 2, 2, exhaustive16());
  one(cases, "cvt.rn.f16.bf16", 2, 2, exhaustive16());
}

void among_floats(Cases& cases) {
  for (const char* rounding : {"rn", "rz", "rm", "rp"}) {
    for (const char* end : {"", ".ftz", ".sat"})
      one(cases, fmt::format("cvt.{}{}.f32.f64", rounding, end), 8, 4, float_rows("f64"));
  }
  one(cases, "cvt.f32.f16", 2, 4, exhaustive16());
  one(cases, "cvt.ftz.f32.f16", 2, 4, exhaustive16());
  one(cases, "cvt.sat.f32.f16", 2, 4, exhaustive16());
  one(cases, "cvt.f32.bf16", 2, 4, exhaustive16());
  one(cases, "cvt.f64.f16", 2, 8, exhaustive16(), 1, Rule::Kind::number, "f64");
  one(cases, "cvt.f64.bf16", 2, 8, exhaustive16(), 1, Rule::Kind::number, "f64");
  one(cases, "cvt.f64.f32", 4, 8, float_rows("f32"), 1, Rule::Kind::number, "f64");
  one(cases, "cvt.ftz.f64.f32", 4, 8, float_rows("f32"), 1, Rule::Kind::number, "f64");
  for (const char* rounding : {"rni", "rzi", "rmi", "rpi"}) {
    for (const char* end : {"", ".ftz", ".sat", ".ftz.sat"})
      one(cases, fmt::format("cvt.{}{}.f32.f32", rounding, end), 4, 4, float_rows("f32"), 1, Rule::Kind::number, "f32");
    one(cases, fmt::format("cvt.{}.f16.f16", rounding), 2, 2, exhaustive16(), 1, Rule::Kind::number, "f16");
    one(cases, fmt::format("cvt.{}.bf16.bf16", rounding), 2, 2, exhaustive16(), 1, Rule::Kind::number, "bf16");
    one(cases, fmt::format("cvt.{}.f64.f64", rounding), 8, 8, float_rows("f64"), 1, Rule::Kind::number, "f64");
  }
  one(cases, "cvt.sat.f32.f32", 4, 4, float_rows("f32"));
  one(cases, "cvt.ftz.sat.f32.f32", 4, 4, float_rows("f32"));
  one(cases, "cvt.ftz.f32.f32", 4, 4, float_rows("f32"), 1, Rule::Kind::number, "f32");
  one(cases, "cvt.sat.f16.f16", 2, 2, exhaustive16());
  one(cases, "cvt.sat.f64.f64", 8, 8, float_rows("f64"));
  const Rows edges = narrowing("f16");  // its mantissa is as wide as tf32's
  for (const char* form : {"rna", "rn", "rz", "rn.relu", "rz.relu", "rna.satfinite"})
    one(cases, fmt::format("cvt.{}.tf32.f32", form), 4, 4, edges);
}

void eight_bits(Cases& cases) {
  for (const char* to : {"e4m3", "e5m2"}) {
    for (const char* relu : {"", ".relu"}) {
      one(cases, fmt::format("cvt.rn.satfinite{}.{}x2.f32", relu, to), 4, 2, narrowing(to), 2);
      Rows halves = exhaustive16();
      for (Row& row : halves) row[0] |= (row[0] * 40503 & 0xffff) << 16;
      one(cases, fmt::format("cvt.rn.satfinite{}.{}x2.f16x2", relu, to), 4, 2, halves);
      one(cases, fmt::format("cvt.rn{}.f16x2.{}x2", relu, to), 2, 4, exhaustive16());
    }
  }
}

}  // namespace

void add_convert(Cases& cases) {
  between_integers(cases);
  to_integers(cases);
  from_integers(cases);
  to_halves(cases);
  among_floats(cases);
  eight_bits(cases);
}

}  // namespace cubit::conformance
