// Number formats of 8 to 64 bits as doubles: exact decoding, and encoding with every rounding of PTX's cvt.
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
  std::string_view name;
  int bits;           ///< of the register part that holds one
  int mantissa_bits;  ///< stored; 0: an integer
  int bias;
  bool is_signed;
  bool has_infinity;
};
const FormatFacts& facts(Format format);
bool find_format(std::string_view name, Format& dst);  ///< "f16", "b32" is not one
inline bool is_integer(Format format) { return facts(format).mantissa_bits == 0; }

/// To nearest even, towards zero, down, up, to nearest away.
enum class Rounding : std::uint8_t { nearest, zero, down, up, away };

/// Exact, but for 64-bit integers, which are rounded to odd: rounding the result again to 32 bits or fewer is exact.
double decode(Format format, std::uint64_t bits);

/// `value` in the floating format. `saturate`: what is too large becomes the largest finite number, NaN stays NaN.
/// A NaN becomes the canonical one (0x7fff for 16 bits, 0x7fffffff, 0x7f). A double that was rounded to odd rounds as
/// the exact number would.
std::uint64_t encode(Format format, double value, Rounding rounding, bool saturate = false);

/// As cvt does: clamped to the format's range; NaN is 0, or the lowest number where a 64-bit type takes part.
std::uint64_t encode_integer(Format format, double value, Rounding rounding, bool from_double);

/// a + b, and a · b + c of at most 24-bit factors, rounded to odd: exact once they are encoded in a smaller format.
double add_to_odd(double a, double b);

}  // namespace cubit::runtime::cpu
