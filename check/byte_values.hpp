// The 8-bit floating-point types on the host, with conversions that round as the kernels do.
#pragma once

#include <cstdint>

namespace cubit::check {

struct Fp8 {
  int fraction_bits;
  int least_exponent;  ///< exponent of the smallest normal number
  bool has_infinity;   ///< the last exponent holds infinity and NaN, as in IEEE 754; else only all ones is NaN
};
inline constexpr Fp8 kE4m3{3, -6, false};
inline constexpr Fp8 kE5m2{2, -14, true};

/// Rounds to nearest, ties to even. The magnitude of `value` must be at most the type's largest number, or NaN.
std::uint8_t fp8_from_float(const Fp8& type, float value);
double fp8_to_double(const Fp8& type, std::uint8_t bits);

}  // namespace cubit::check
