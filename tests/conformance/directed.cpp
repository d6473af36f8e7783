// Cases of add, sub, mul and fma rounded towards zero, down and up, with a model of integers. convert.cpp has the
// directed conversions. PTX ISA, "Floating Point Instructions".
#include <fmt/format.h>

#include <bit>

#include "tests/conformance/elementwise.hpp"
#include "tests/runtime_cpu/exact.hpp"

namespace cubit::conformance {
namespace {

using tests::Decoded;
using tests::Layout;
using tests::To;

struct Direction {
  const char* name;
  To to;
};
constexpr Direction kDirections[] = {{"rz", To::zero}, {"rm", To::down}, {"rp", To::up}};

struct Form {
  Layout layout = tests::kF32;
  To to = To::zero;
  bool flushes = false;
  bool saturates = false;
};

bool is_subnormal(const Layout& layout, std::uint64_t bits) {
  const std::uint64_t magnitude = bits & (layout.sign() - 1);
  return magnitude != 0 && magnitude >> layout.mantissa_bits == 0;
}

Decoded operand(const Form& form, std::uint64_t bits) {
  if (form.flushes && is_subnormal(form.layout, bits)) bits &= form.layout.sign();
  return form.layout.decode(bits);
}

Decoded negated(Decoded number) {
  number.mantissa = -number.mantissa;
  number.is_negative = !number.is_negative;
  return number;
}

/// One of two terms of a sum: a number, or an unrounded product.
template <class Exact>
struct Term {
  Exact value{};
  bool is_negative = false;  ///< also for zero
  bool is_infinite = false;
  bool is_nan = false;
};

template <class Exact>
Term<Exact> term(const Decoded& number) {
  Term<Exact> made{.is_negative = number.is_negative, .is_infinite = number.is_infinite, .is_nan = number.is_nan};
  if (!number.is_infinite && !number.is_nan) made.value.add(number, 1);
  return made;
}

template <class Exact>
Term<Exact> product(const Decoded& a, const Decoded& b) {
  const auto is_zero = [](const Decoded& number) { return !number.is_infinite && number.mantissa == 0; };
  Term<Exact> made{.is_negative = a.is_negative != b.is_negative, .is_infinite = a.is_infinite || b.is_infinite};
  made.is_nan = a.is_nan || b.is_nan || (made.is_infinite && (is_zero(a) || is_zero(b)));
  if (!made.is_infinite && !made.is_nan) made.value.add_product(a, b);
  return made;
}

/// .ftz tests the result rounded without a lower limit of the exponent, as an H200 does.
template <class Exact>
bool is_flushed(const Form& form, const Exact& exact, std::uint64_t bits) {
  if (!form.flushes) return false;
  if (is_subnormal(form.layout, bits)) return true;
  Layout unlimited = form.layout;
  unlimited.exponent_bits = 10;
  const std::uint64_t same = tests::rounded(unlimited, exact, form.to) & (unlimited.sign() - 1);
  const int lowest = unlimited.bias() - form.layout.bias() + 1;
  return same >> form.layout.mantissa_bits < static_cast<std::uint64_t>(lowest);
}

template <class Exact>
std::uint64_t sum(const Form& form, const Term<Exact>& a, const Exact& exact, const Term<Exact>& b) {
  const Layout& layout = form.layout;
  if (a.is_nan || b.is_nan || (a.is_infinite && b.is_infinite && a.is_negative != b.is_negative)) return layout.nan();
  const auto infinity = [&](bool is_negative) { return (is_negative ? layout.sign() : 0) | (layout.largest() + 1); };
  if (a.is_infinite) return infinity(a.is_negative);
  if (b.is_infinite) return infinity(b.is_negative);
  if (exact.sign() == 0) {  // terms of one sign keep the sign; other terms give +0, or -0 when rounding down
    const bool is_negative = a.is_negative == b.is_negative ? a.is_negative : form.to == To::down;
    return is_negative ? layout.sign() : 0;
  }
  const std::uint64_t bits = tests::rounded(layout, exact, form.to);
  return is_flushed(form, exact, bits) ? bits & layout.sign() : bits;
}

std::uint64_t saturated(const Form& form, std::uint64_t bits) {
  const Layout& layout = form.layout;
  const std::uint64_t one = static_cast<std::uint64_t>(layout.bias()) << layout.mantissa_bits;
  if ((bits & layout.sign()) != 0 || bits == layout.nan()) return 0;
  return bits > one ? one : bits;
}

/// PTX ISA: sub adds the negated operand. mul has no second term, so a zero has the product's sign.
template <class Exact>
std::uint64_t result(const std::string& root, const Form& form, const Row& row) {
  const Decoded a = operand(form, row[0]);
  const Decoded b = operand(form, row[1]);
  const bool multiplies = root == "mul" || root == "fma";
  const Term<Exact> first = multiplies ? product<Exact>(a, b) : term<Exact>(a);
  Term<Exact> second{.is_negative = first.is_negative};
  const Decoded addend = multiplies ? operand(form, row[2]) : root == "sub" ? negated(b) : b;
  if (root != "mul") second = term<Exact>(addend);
  Exact exact = first.value;
  if (root != "mul" && !addend.is_infinite && !addend.is_nan) exact.add(addend, 1);
  const std::uint64_t bits = sum(form, first, exact, second);
  return form.saturates ? saturated(form, bits) : bits;
}

/// Products next to 2^-126, the smallest normal number, where .ftz decides.
Rows next_to_the_smallest(Rows rows) {
  std::uint64_t state = 123;
  for (int i = 0; i < 256; ++i) {
    // about 2^-63
    const auto one = static_cast<std::uint32_t>(random_bits(state) >> 41) | 0x20000000U;
    const auto other = std::bit_cast<std::uint32_t>(0x1p-126F / std::bit_cast<float>(one));
    const std::uint64_t sign = random_bits(state) & 0x80000000;
    rows.push_back({one | sign, other + static_cast<std::uint64_t>(i % 5) - 2, 0, 0});
  }
  return rows;
}

void add_one(Cases& cases, const std::string& root, const std::string& modifiers, const Form& form) {
  const int operands = root == "fma" ? 3 : 2;
  const std::string format = form.layout.name;
  const bool single = format == "f32";
  const std::string opcode = fmt::format("{}{}.{}", root, modifiers, format);
  const int bytes = single ? 4 : 8;
  const std::size_t count = single ? 1024 : 256;
  Rows rows = combinations(float_corners(format), operands, single ? 3000 : 500);
  rows = with_random_floats(with_random(std::move(rows), count / 2, 121), format, count, 12, 122);
  if (single) rows = next_to_the_smallest(std::move(rows));
  add(cases,
      {.name = opcode,
       .body = opcode + (operands == 3 ? " %z0, %a0, %a1, %a2;" : " %z0, %a0, %a1;"),
       .sources = std::vector<int>(static_cast<std::size_t>(operands), bytes),
       .results = {bytes},
       .rule = {.kind = single ? Rule::Kind::exact : Rule::Kind::number, .format = single ? "f32" : "f64"},
       .model = [root, form, single](const Row& row) -> Row {
         return {single ? result<tests::Exact>(root, form, row) : result<tests::ExactDouble>(root, form, row), 0, 0, 0};
       }},
      rows);
}

}  // namespace

void add_directed(Cases& cases) {
  for (const char* root : {"add", "sub", "mul", "fma"}) {
    for (const Direction& direction : kDirections) {
      for (const bool flushes : {false, true}) {
        for (const bool saturates : {false, true})
          add_one(cases, root, fmt::format(".{}{}{}", direction.name, flushes ? ".ftz" : "", saturates ? ".sat" : ""),
                  {tests::kF32, direction.to, flushes, saturates});
      }
      add_one(cases, root, fmt::format(".{}", direction.name), {.layout = tests::kF64, .to = direction.to});
    }
  }
}

}  // namespace cubit::conformance
