// Arithmetic that is rare or has no vector form: division, byte permutation, 16-bit floats, functions, conversions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

std::int64_t sign_extended(std::uint64_t value, int bytes) {
  const int unused = 64 - 8 * bytes;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

/// Division by zero gives all ones, and so does the remainder. The PTX ISA leaves the result open; an H200 does the
/// same.
std::uint64_t quotient(const Site& site, std::uint64_t a, std::uint64_t b, bool remainder) {
  if (b == 0) return ~0ULL;
  if (!site.is_signed) return remainder ? a % b : a / b;
  const std::int64_t x = sign_extended(a, site.bytes);
  const std::int64_t y = sign_extended(b, site.bytes);
  if (y == -1)
    return remainder ? 0 : 0 - static_cast<std::uint64_t>(x);  // the lowest number has no positive
                                                               // counterpart
  return static_cast<std::uint64_t>(remainder ? x % y : x / y);
}

std::uint64_t leading(const Site& site, std::uint64_t value) {
  if (site.is_signed && sign_extended(value, site.bytes) < 0) value = ~value & (~0ULL >> (64 - 8 * site.bytes));
  if (value == 0) return 0xffffffff;
  const int position = static_cast<int>(std::bit_width(value)) - 1;
  return static_cast<std::uint64_t>(site.flag ? 8 * site.bytes - 1 - position : position);
}

std::uint32_t permuted(std::uint64_t bytes, std::uint32_t selector, int mode) {
  const auto byte = [&](unsigned i) { return static_cast<std::uint32_t>(bytes >> (8 * i) & 0xff); };
  const unsigned s = selector & 3;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint32_t picked = 0;
    switch (mode) {  // modes of prmt in the PTX ISA: f4e, b4e, rc8, ecl, ecr, rc16
      case 2:
        picked = byte(s + i);
        break;
      case 3:
        picked = byte((s - i) & 7);
        break;
      case 4:
        picked = byte(s);
        break;
      case 5:
        picked = byte(std::max(i, s));
        break;
      case 6:
        picked = byte(std::min(i, s));
        break;
      case 7:
        picked = byte((s & 1) * 2 + (i & 1));
        break;
      default: {
        const unsigned nibble = selector >> (4 * i) & 15;
        picked = byte(nibble & 7);
        if ((nibble & 8) != 0) picked = (picked & 0x80) != 0 ? 0xff : 0;
      }
    }
    result |= picked << (8 * i);
  }
  return result;
}

std::uint32_t dot(const Site& site, std::uint32_t a, std::uint32_t b, std::uint32_t c, int a_bytes, int count) {
  for (int i = 0; i < count; ++i) {
    const std::uint32_t x = a >> (8 * a_bytes * i);
    const std::uint32_t y = b >> (8 * i);
    const auto left =
        site.is_signed ? sign_extended(x, a_bytes) : static_cast<std::int64_t>(x & (a_bytes == 1 ? 0xffu : 0xffffu));
    const auto right = site.flag ? sign_extended(y, 1) : static_cast<std::int64_t>(y & 0xff);
    c += static_cast<std::uint32_t>(left * right);
  }
  return c;
}

std::uint64_t difference(const Site& site, std::uint64_t a, std::uint64_t b) {
  const bool a_larger = site.is_signed ? sign_extended(a, site.bytes) > sign_extended(b, site.bytes) : a > b;
  return a_larger ? a - b : b - a;
}

std::uint64_t integer_result(const Site& site, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  switch (static_cast<IntegerKind>(site.kind)) {
    case IntegerKind::divide:
      return quotient(site, a, b, false);
    case IntegerKind::remainder:
      return quotient(site, a, b, true);
    case IntegerKind::permute:
      return permuted(b << 32 | a, static_cast<std::uint32_t>(c), site.count);
    case IntegerKind::find_leading:
      return leading(site, a);
    case IntegerKind::dot4:
      return dot(site, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(c), 1,
                 4);
    case IntegerKind::dot2:  // the low or the high two bytes of b
      return dot(site, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b) >> (16 * site.count),
                 static_cast<std::uint32_t>(c), 2, 2);
    case IntegerKind::differences:
      return c + difference(site, a, b);
  }
  return 0;
}

/// Applies .ftz to a result that is not rounded yet. The result becomes zero if rounding to a format without the
/// exponent limit would give a number below the lowest normal number.
double flushed_result(Format format, double value) {
  const double lowest = std::ldexp(1.0, 1 - facts(format).bias);
  const double limit = lowest - std::ldexp(lowest, -facts(format).mantissa_bits - 2);
  return std::abs(value) < limit ? std::copysign(0.0, value) : value;
}

double smaller_or_greater(double a, double b, bool greater, bool nan_wins) {
  if (std::isnan(a) || std::isnan(b)) {
    if (nan_wins) return std::numeric_limits<double>::quiet_NaN();
    return std::isnan(a) ? b : a;
  }
  if (a == b) return std::signbit(a) == greater ? b : a;  // -0 is smaller than +0
  return (a < b) == greater ? b : a;
}

double half_result(const Site& site, double a, double b, double c) {
  if (site.form != 0) {  // .xorsign.abs
    const double extreme =
        smaller_or_greater(std::abs(a), std::abs(b), static_cast<HalfKind>(site.kind) == HalfKind::maximum, site.flag);
    return std::signbit(a) != std::signbit(b) ? -extreme : extreme;
  }
  switch (static_cast<HalfKind>(site.kind)) {
    case HalfKind::add:
      return add_to_odd(a, b);
    case HalfKind::subtract:
      return add_to_odd(a, -b);
    case HalfKind::multiply:
      return a * b;
    case HalfKind::fused:
      return add_to_odd(a * b, c);
    case HalfKind::minimum:
      return smaller_or_greater(a, b, false, site.flag);
    case HalfKind::maximum:
      return smaller_or_greater(a, b, true, site.flag);
    case HalfKind::negate:
      return -a;
    case HalfKind::absolute:
      return std::abs(a);
  }
  return 0;
}

/// Clamps to [+0, 1]; NaN becomes +0.
double saturated(double value) { return value > 0 ? std::min(value, 1.0) : 0; }

/// Applies .sat, which makes NaN zero, or .relu, which keeps NaN. Neither leaves -0.
double limited(const Site& site, double value) {
  if (site.saturate) return saturated(value);
  return site.is_signed && value <= 0 ? 0 : value;
}

/// Replaces subnormals of the format by zeros of the same sign.
double flushed(Format format, double value) {
  const double lowest = std::ldexp(1.0, 1 - facts(format).bias);
  return std::abs(value) < lowest ? std::copysign(0.0, value) : value;
}

double function_result(FunctionKind kind, double x) {
  switch (kind) {
    case FunctionKind::ex2:
      return std::exp2(x);
    case FunctionKind::lg2:
      return std::log2(x);
    case FunctionKind::sine:
      return std::sin(x);
    case FunctionKind::cosine:
      return std::cos(x);
    case FunctionKind::tanh:
      return std::tanh(x);
    case FunctionKind::rsqrt:
      return 1 / std::sqrt(x);
    case FunctionKind::sqrt:
      return std::sqrt(x);
    case FunctionKind::rcp:
      return 1 / x;
  }
  return x;
}

/// Converts a NaN as an H200 does. A double's NaN keeps its sign and upper payload and becomes quiet. A bf16 NaN stays
/// unchanged. All other NaNs become the canonical NaN of their format.
std::uint64_t converted_nan(Format from, Format to, std::uint64_t bits) {
  const FormatFacts& target = facts(to);
  if (from == Format::bf16 && to == Format::f32) return bits << 16;
  if (from != Format::f64 || to == Format::f64) return encode(to, std::nan(""), Rounding::nearest);
  const std::uint64_t sign = bits >> 63 << (target.bits - 1);
  const std::uint64_t quiet = 1ULL << (target.mantissa_bits - 1);
  const std::uint64_t infinity = (1ULL << (target.bits - 1)) - (1ULL << target.mantissa_bits);
  const std::uint64_t payload = (bits & 0xfffffffffffff) >> (52 - target.mantissa_bits);
  return sign | infinity | quiet | payload;
}

/// Converts to tf32, in the upper bits of a word, as an H200 does. Rounding away from zero is integer arithmetic: a NaN
/// is truncated, and .satfinite subtracts one unit from everything with the largest exponent, including infinities and
/// NaNs. In all other modes NaN becomes 0x7fffe000.
std::uint64_t converted_to_tf32(const Site& site, double value, std::uint64_t bits) {
  constexpr std::uint64_t kInfinity = 0x7f800000;
  constexpr std::uint64_t kUnit = 0x2000;
  const auto rounding = static_cast<Rounding>(site.kind);
  if (rounding != Rounding::away) return std::isnan(value) ? 0x7fffe000 : encode(Format::tf32, value, rounding);
  const std::uint64_t result = std::isnan(value) ? bits & ~(kUnit - 1) : encode(Format::tf32, value, rounding);
  return site.form != 0 && (result & kInfinity) == kInfinity ? result - kUnit : result;
}

double rounded_to_integral(double value, Rounding rounding) {
  const double whole = rounding == Rounding::zero   ? std::trunc(value)
                       : rounding == Rounding::down ? std::floor(value)
                       : rounding == Rounding::up   ? std::ceil(value)
                                                    : std::nearbyint(value);
  return std::copysign(whole, value);
}

/// A 64-bit integer has more bits than a double.
std::uint64_t double_of_integer(Format from, Rounding rounding, std::uint64_t bits) {
  const bool negative = facts(from).is_signed && static_cast<std::int64_t>(bits) < 0;
  const std::uint64_t magnitude = negative ? 0 - bits : bits;
  const int extra = static_cast<int>(std::bit_width(magnitude)) - 53;
  std::uint64_t kept = extra > 0 ? magnitude >> extra : magnitude;
  const std::uint64_t rest = extra > 0 ? magnitude & ((1ULL << extra) - 1) : 0;
  const std::uint64_t half = extra > 0 ? 1ULL << (extra - 1) : 0;
  const bool up = rounding == Rounding::nearest ? rest > half || (rest == half && (kept & 1) != 0)
                                                : rounding == (negative ? Rounding::down : Rounding::up);
  if (rest != 0 && up) ++kept;
  const double value = std::ldexp(static_cast<double>(kept), std::max(extra, 0));
  return std::bit_cast<std::uint64_t>(negative ? -value : value);
}

std::uint64_t converted_to_integer(const Site& site, double value, std::uint64_t bits) {
  const auto from = static_cast<Format>(site.from);
  const auto to = static_cast<Format>(site.to);
  // Conversions between 64-bit integers saturate without passing through a double.
  if (is_integer(from) && facts(from).bits == 64) {
    const bool negative = facts(from).is_signed && static_cast<std::int64_t>(bits) < 0;
    if (negative && !facts(to).is_signed) return 0;
    if (facts(to).bits == 64) return !negative && facts(to).is_signed ? std::min(bits, ~std::uint64_t{0} >> 1) : bits;
  }
  return encode_integer(to, value, static_cast<Rounding>(site.kind), from == Format::f64);
}

/// `saturate`: .sat; `form`: .satfinite; `is_signed`: .relu; `flag`: .ftz; `integral`: .rni and similar.
std::uint64_t converted(const Site& site, std::uint64_t bits) {
  const auto from = static_cast<Format>(site.from);
  const auto to = static_cast<Format>(site.to);
  const auto rounding = static_cast<Rounding>(site.kind);
  double value = decode(from, bits);
  // An H200 does not flush values that become f16. The difference is visible in results that are rounded up or down.
  if (site.flag && from == Format::f32 && to != Format::f16) value = flushed(Format::f32, value);
  if (is_integer(to)) return converted_to_integer(site, value, bits);
  if (is_integer(from) && facts(from).bits == 64 && to == Format::f64) return double_of_integer(from, rounding, bits);
  if (site.integral && std::isfinite(value)) value = rounded_to_integral(value, rounding);
  if (site.is_signed && value <= 0) value = 0;
  if (site.saturate && !is_integer(from)) value = saturated(value);
  if (to == Format::tf32) return converted_to_tf32(site, value, bits);
  if (std::isnan(value)) return converted_nan(from, to, bits);
  std::uint64_t result = encode(to, value, rounding, site.form != 0);
  if (site.flag && to == Format::f32 && (result & 0x7f800000) == 0) result &= 0x80000000;
  return result;
}

}  // namespace

void integer(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    const std::uint64_t value =
        integer_result(site, read_lane(warp.sources[0], site.bytes, lane), read_lane(warp.sources[1], site.bytes, lane),
                       read_lane(warp.sources[2], site.bytes, lane));
    // popc, bfind and similar instructions give 32 bits for a 64-bit source. Narrower results are truncated.
    write_lane(warp.results[0], std::max(site.bytes, 1), lane, value);
  });
}

void half_arithmetic(Warp& warp, Mask mask, const Site& site) {
  const auto format = static_cast<Format>(site.from);
  const int bytes = 2 * site.count;
  for_lanes(mask, [&](int lane) {
    std::uint64_t packed = 0;
    for (int i = 0; i < site.count; ++i) {
      const auto operand = [&](int slot) {
        const double number = decode(format, read_lane(warp.sources[slot], bytes, lane) >> (16 * i) & 0xffff);
        return site.integral ? flushed(format, number) : number;
      };
      double value = half_result(site, operand(0), operand(1), operand(2));
      if (site.integral) value = flushed_result(format, value);
      value = limited(site, value);
      packed |= encode(format, value, Rounding::nearest) << (16 * i);
    }
    write_lane(warp.results[0], bytes, lane, packed);
  });
}

/// rcp and rsqrt.approx.ftz.f64 read and write the upper words only.
void gross_function(Warp& warp, Mask mask, const Site& site) {
  constexpr std::uint64_t kUpper = 0xffffffff00000000;
  for_lanes(mask, [&](int lane) {
    const double x = flushed(Format::f64, std::bit_cast<double>(source<std::uint64_t>(warp, 0)[lane] & kUpper));
    const double y = flushed(Format::f64, function_result(static_cast<FunctionKind>(site.kind), x));
    const std::uint64_t bits = std::isnan(y) ? 0x7fffffffffffffff : std::bit_cast<std::uint64_t>(y);
    result<std::uint64_t>(warp).set(lane, bits & kUpper);
  });
}

void function(Warp& warp, Mask mask, const Site& site) {
  const auto format = static_cast<Format>(site.from);
  if (format == Format::f64 && site.flag) return gross_function(warp, mask, site);
  const int bits = facts(format).bits;
  const int bytes = bits / 8 * site.count;
  for_lanes(mask, [&](int lane) {
    const std::uint64_t packed = read_lane(warp.sources[0], bytes, lane);
    std::uint64_t results = 0;
    for (int i = 0; i < site.count; ++i) {
      double x = decode(format, packed >> (bits * i) & (~0ULL >> (64 - bits)));
      if (site.flag) x = flushed(format, x);
      double y = function_result(static_cast<FunctionKind>(site.kind), x);
      if (site.flag) y = flushed(format, y);
      results |= encode(format, y, Rounding::nearest) << (bits * i);
    }
    write_lane(warp.results[0], bytes, lane, results);
  });
}

/// `count`: 0 converts one value, 1 converts sources 0 and 1 into the high and low half, 2 converts both halves of
/// source 0.
void convert(Warp& warp, Mask mask, const Site& site) {
  const int from = facts(static_cast<Format>(site.from)).bits;
  const int to = facts(static_cast<Format>(site.to)).bits;
  for_lanes(mask, [&](int lane) {
    if (site.count == 0) {
      return write_lane(warp.results[0], to / 8, lane, converted(site, read_lane(warp.sources[0], from / 8, lane)));
    }
    std::uint64_t high = read_lane(warp.sources[0], from / 8 * site.count, lane);
    std::uint64_t low = read_lane(warp.sources[1], from / 8, lane);
    if (site.count == 2) {
      low = high & (~0ULL >> (64 - from));
      high >>= from;
    }
    write_lane(warp.results[0], to / 4, lane, converted(site, high) << to | converted(site, low));
  });
}

}  // namespace cubit::runtime::cpu::helpers
