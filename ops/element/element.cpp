// Converts between 16-bit elements and float and double.
#include "ops/element/element.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace cubit::ops {
namespace {

double half_to_double(std::uint16_t bits) {
  const unsigned exponent = bits >> 10 & 31;
  const std::uint64_t fraction = bits & 1023;
  double magnitude = static_cast<double>(fraction) * 0x1p-24;
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent > 0) {
    constexpr std::uint64_t kBiases = 1023 - 15;
    magnitude = std::bit_cast<double>((exponent + kBiases) << 52 | fraction << 42);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t half_from_float(float value) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.f) return sign | 0x7c00;  // rounds to 65536, beyond the largest number
  if (magnitude < 0x1p-14f) {
    // Numbers from 1/2 to 1 are 2^-24 apart, as subnormal fp16 numbers are, so the addition rounds half to even.
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(magnitude + 0.5f) - 0x3f000000));
  }
  // Rounds the fraction to 10 bits, half to even. A carry increments the exponent, which is correct.
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = (bits + 0xfff + (bits >> 13 & 1)) >> 13;
  constexpr std::uint32_t kBiases = 127 - 15;
  return static_cast<std::uint16_t>(sign | (rounded - (kBiases << 10)));
}

std::uint16_t bfloat16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

std::string_view element_type(Element element) { return element == Element::bf16 ? "BF16" : "F16"; }

std::string_view device_type(Element element) { return element == Element::bf16 ? "cubit::Bfloat16" : "cubit::Half"; }

double to_double(Element element, std::uint16_t bits) {
  if (element == Element::fp16) return half_to_double(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t from_float(Element element, float value) {
  return element == Element::fp16 ? half_from_float(value) : bfloat16_from_float(value);
}

double difference_of(Element element, double found, double reference, double tolerance) {
  const double beyond = element == Element::fp16 ? 65520 : 0x1.ffp127;  // the first that rounds to infinity
  if (!std::isinf(found)) {
    const bool may_be_finite = std::fabs(reference) < beyond * (1 + tolerance);
    return may_be_finite ? found - reference : std::numeric_limits<double>::quiet_NaN();
  }
  const bool is_right = std::fabs(reference) >= beyond * (1 - tolerance) && (reference < 0) == (found < 0);
  return is_right ? 0 : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace cubit::ops
