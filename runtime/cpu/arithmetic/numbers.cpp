// Decodes and encodes number formats through the bits of a double.
#include "runtime/cpu/arithmetic/numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace cubit::runtime::cpu {
namespace {

// Formats after PTX ISA, "Fundamental Types" and "Alternate Floating-Point Data Formats".
constexpr std::array<FormatFacts, 17> kFormats = {{
    {"f16", 16, 10, 15, true, true},
    {"bf16", 16, 7, 127, true, true},
    {"f32", 32, 23, 127, true, true},
    {"f64", 64, 52, 1023, true, true},
    {"tf32", 32, 10, 127, true, true},
    {"e4m3", 8, 3, 7, true, false},
    {"e5m2", 8, 2, 15, true, true},
    {"u8", 8, 0, 0, false, false},
    {"s8", 8, 0, 0, true, false},
    {"u16", 16, 0, 0, false, false},
    {"s16", 16, 0, 0, true, false},
    {"u32", 32, 0, 0, false, false},
    {"s32", 32, 0, 0, true, false},
    {"u64", 64, 0, 0, false, false},
    {"s64", 64, 0, 0, true, false},
    {"u4", 4, 0, 0, false, false},
    {"s4", 4, 0, 0, true, false},
}};

/// tf32 occupies the upper 19 bits of a word: its bits are the bits of an f32 without the last 13.
constexpr int kTf32Shift = 13;

int exponent_bits(const FormatFacts& format) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(format.bias))) + 1;
}

double decode_float(const FormatFacts& format, std::uint64_t bits) {
  const std::uint64_t mantissa = bits & ((1ULL << format.mantissa_bits) - 1);
  const int width = exponent_bits(format);
  const int exponent = static_cast<int>(bits >> format.mantissa_bits & ((1ULL << width) - 1));
  const bool negative = (bits >> (format.mantissa_bits + width) & 1) != 0;
  const bool all_ones = exponent == (1 << width) - 1;
  double value = 0;
  if (all_ones && format.has_infinity) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (all_ones && mantissa == (1ULL << format.mantissa_bits) - 1) {
    value = std::numeric_limits<double>::quiet_NaN();  // e4m3 has one NaN and no infinities
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - format.bias - format.mantissa_bits);
  } else {
    constexpr int kBias = 1023;  // exponent bias of a double, whose range includes all these numbers
    value = std::bit_cast<double>(static_cast<std::uint64_t>(exponent - format.bias + kBias) << 52 |
                                  mantissa << (52 - format.mantissa_bits));
  }
  return negative ? -value : value;
}

double odd_double(std::uint64_t magnitude) {
  const int extra = static_cast<int>(std::bit_width(magnitude)) - 53;
  if (extra <= 0) return static_cast<double>(magnitude);
  const std::uint64_t sticky = (magnitude & ((1ULL << extra) - 1)) != 0 ? 1 : 0;
  return std::ldexp(static_cast<double>(magnitude >> extra | sticky), extra);
}

/// Rounds to an integer. The result is exact for every value that a double can hold.
double rounded(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
    case Rounding::away:
      return std::round(value);
    case Rounding::nearest:
      break;
  }
  return std::nearbyint(value);
}

double largest(const FormatFacts& format) {
  const int width = exponent_bits(format);
  const int exponent = (1 << width) - 1 - format.bias - (format.has_infinity ? 1 : 0);
  const double mantissa = 2.0 - std::ldexp(format.has_infinity ? 1.0 : 2.0, -format.mantissa_bits);
  return std::ldexp(mantissa, exponent);
}

std::uint64_t canonical_nan(const FormatFacts& format) {
  const std::uint64_t ones = (1ULL << (format.mantissa_bits + exponent_bits(format))) - 1;
  return ones;
}

std::uint64_t overflowed(const FormatFacts& format, bool negative, Rounding rounding, bool saturate) {
  const bool towards_zero =
      rounding == Rounding::zero || rounding == (negative ? Rounding::up : Rounding::down) || saturate;
  const std::uint64_t infinity = ((1ULL << exponent_bits(format)) - 1) << format.mantissa_bits;
  if (!format.has_infinity) return canonical_nan(format) - (towards_zero ? 1 : 0);
  return towards_zero ? infinity - 1 : infinity;
}

std::uint64_t encode_magnitude(const FormatFacts& format, double magnitude, bool negative, Rounding rounding,
                               bool saturate) {
  if (std::isinf(magnitude))
    return overflowed(format, negative, saturate ? Rounding::zero : Rounding::nearest, saturate);
  const int exponent = magnitude == 0 ? 1 - format.bias : std::max(std::ilogb(magnitude), 1 - format.bias);
  const double units = std::ldexp(magnitude, format.mantissa_bits - exponent);
  const double whole = std::abs(rounded(negative ? -units : units, rounding));
  if (std::ldexp(whole, exponent - format.mantissa_bits) > largest(format)) {
    return overflowed(format, negative, rounding, saturate);
  }
  // A carry out of the mantissa increments the exponent, as it should. Subnormals have exponent field 0.
  const auto integer = static_cast<std::uint64_t>(whole);
  const std::uint64_t hidden = 1ULL << format.mantissa_bits;
  if (integer < hidden) return integer;
  return (static_cast<std::uint64_t>(exponent + format.bias) << format.mantissa_bits) + (integer - hidden);
}

}  // namespace

const FormatFacts& facts(Format format) { return kFormats[static_cast<std::size_t>(format)]; }

bool find_format(std::string_view name, Format& dst) {
  for (std::size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].name != name) continue;
    dst = static_cast<Format>(i);
    return true;
  }
  return false;
}

double decode(Format format, std::uint64_t bits) {
  const FormatFacts& row = facts(format);
  if (format == Format::f32) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  if (format == Format::f64) return std::bit_cast<double>(bits);
  if (format == Format::tf32) return decode_float(row, (bits & 0xffffffff) >> kTf32Shift);
  if (row.mantissa_bits != 0) return decode_float(row, bits);
  const int unused = 64 - row.bits;
  if (!row.is_signed) return odd_double(bits << unused >> unused);
  const auto value = static_cast<std::int64_t>(bits << unused) >> unused;
  const double magnitude =
      odd_double(value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value));
  return value < 0 ? -magnitude : magnitude;
}

std::uint64_t encode(Format format, double value, Rounding rounding, bool saturate) {
  const FormatFacts& row = facts(format);
  if (format == Format::f64) return std::bit_cast<std::uint64_t>(value);
  const int sign = row.mantissa_bits + exponent_bits(row);
  std::uint64_t bits = canonical_nan(row);
  if (!std::isnan(value)) {
    const bool negative = std::signbit(value);
    bits = encode_magnitude(row, std::abs(value), negative, rounding, saturate) | static_cast<std::uint64_t>(negative)
                                                                                      << sign;
  }
  if (format == Format::tf32) return std::isnan(value) ? 0x7fffffff : bits << kTf32Shift;
  return bits;
}

std::uint64_t encode_integer(Format format, double value, Rounding rounding, bool from_double) {
  const FormatFacts& row = facts(format);
  const std::uint64_t ones = ~0ULL >> (64 - row.bits);
  const std::uint64_t top = 1ULL << (row.bits - 1);
  if (std::isnan(value)) return from_double || row.bits == 64 ? top : 0;
  const double whole = rounded(value, rounding);
  const double limit = std::ldexp(1.0, row.is_signed ? row.bits - 1 : row.bits);  // one more than the largest number
  if (whole >= limit) return row.is_signed ? top - 1 : ones;
  if (whole < 0 && !row.is_signed) return 0;
  if (whole < -limit) return top;
  if (whole < 0) return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole)) & ones;
  return static_cast<std::uint64_t>(whole);
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum) || !std::isfinite(a) || !std::isfinite(b)) return sum;
  // Knuth's two-sum: the rounding error of `sum`.
  const double b_part = sum - a;
  const double lost = (a - (sum - b_part)) + (b - b_part);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if (lost == 0 || (bits & 1) != 0) return sum;
  const bool away = (lost > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

}  // namespace cubit::runtime::cpu
