#include "check/byte_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "check/rounding.hpp"

namespace cubit::check {

std::uint8_t fp8_from_float(const Fp8& type, float value) {
  if (std::isnan(value)) return 0x7f;  // NaN in both fp8 types
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::fabs(value);
  const int float_exponent = static_cast<int>(std::bit_cast<std::uint32_t>(magnitude) >> 23) - 127;
  const int exponent = std::max(float_exponent, type.least_exponent);
  const auto unit = std::bit_cast<float>(static_cast<std::uint32_t>(127 + type.fraction_bits - exponent) << 23);
  // The value in units of the last place, rounded half to even. A carry increments the exponent, which is correct.
  const auto units = static_cast<int>(round_half_even(magnitude * unit));
  return static_cast<std::uint8_t>(sign | (((exponent - type.least_exponent) << type.fraction_bits) + units));
}

double fp8_to_double(const Fp8& type, std::uint8_t bits) {
  const int exponent = (bits & 0x7f) >> type.fraction_bits;
  const int fraction = bits & ((1 << type.fraction_bits) - 1);
  if (const int infinity = 0x7f >> type.fraction_bits << type.fraction_bits;
      type.has_infinity ? (bits & 0x7f) >= infinity : (bits & 0x7f) == 0x7f) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (!type.has_infinity || fraction != 0) return std::numeric_limits<double>::quiet_NaN();
    return (bits & 0x80) != 0 ? -kInfinity : kInfinity;
  }
  const int units = exponent == 0 ? fraction : fraction + (1 << type.fraction_bits);
  const double magnitude = std::ldexp(units, std::max(exponent, 1) - 1 + type.least_exponent - type.fraction_bits);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace cubit::check
