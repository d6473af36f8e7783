// Number formats of 4 to 64 bits: exact decoding to double, and encoding with every rounding mode of PTX's cvt.
#pragma once

#include <cstdint>
#include <string_view>

namespace cubit::runtime::cpu {

enum class Format : std::uint8_t {
  f16,
  bf16,
  f32,
  f64,
  tf32,
  e4m3,
  e5m2,
  u8,
  s8,
  u16,
  s16,
  u32,
  s32,
  u64,
  s64,
  u4,
  s4
};

struct FormatFacts {
  /// Properties of a number format.
  std::string_view name;
  int bits;           ///< width of one number in a register
  int mantissa_bits;  ///< stored mantissa bits; 0 for integers
  int bias;
  bool is_signed;
  bool has_infinity;
};
const FormatFacts& facts(Format format);
bool find_format(std::string_view name,
                 Format& dst);  ///< finds a format by its PTX name, such as "f16"; false for "b32"
inline bool is_integer(Format format) { return facts(format).mantissa_bits == 0; }

/// Rounding modes: to nearest even, towards zero, down, up, and to nearest with ties away from zero.
enum class Rounding : std::uint8_t { nearest, zero, down, up, away };

/// Decodes a number. The result is exact, except for 64-bit integers, which are rounded to odd. A second rounding of
/// such a result to 32 bits or fewer is then exact.
double decode(Format format, std::uint64_t bits);

/// Rounds `value` to a floating-point format and returns its bits. With `saturate`, a value that is too large becomes
/// the largest finite number, and NaN stays NaN. Every NaN becomes the canonical NaN (0x7fff for 16 bits, 0x7fffffff
/// for 32 bits, 0x7f for 8 bits). A double that was rounded to odd rounds like the exact number.
std::uint64_t encode(Format format, double value, Rounding rounding, bool saturate = false);

/// Converts to an integer as cvt does: the value is clamped to the format's range. NaN becomes 0, or the lowest number
/// if source or result is a 64-bit type.
std::uint64_t encode_integer(Format format, double value, Rounding rounding, bool from_double);

/// Computes a + b, and a · b + c for factors of at most 24 bits, rounded to odd. Encoding the result in a smaller
/// format then rounds correctly.
double add_to_odd(double a, double b);

}  // namespace cubit::runtime::cpu
