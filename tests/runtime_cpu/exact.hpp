// Exact arithmetic with integers, as an independent model to check rounding with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cubit::tests {

/// mantissa · 2^exponent, or infinity, or NaN.
struct Decoded {
  std::int64_t mantissa = 0;
  int exponent = 0;
  bool is_negative = false;  ///< also for zero
  bool is_infinite = false;
  bool is_nan = false;
};

/// A format in IEEE 754's layout: sign, exponent, mantissa.
struct Layout {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;  ///< false: only the all-ones pattern is special, a NaN

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint64_t sign() const { return std::uint64_t{1} << (exponent_bits + mantissa_bits); }
  std::uint64_t nan() const { return sign() - 1; }
  std::uint64_t largest() const {  ///< the largest finite number
    return has_infinity ? (sign() - (std::uint64_t{1} << mantissa_bits)) - 1 : nan() - 1;
  }
  Decoded decode(std::uint64_t bits) const;
};
inline constexpr Layout kF16{"f16", 5, 10};
inline constexpr Layout kBf16{"bf16", 8, 7};
inline constexpr Layout kF32{"f32", 8, 23};
inline constexpr Layout kF64{"f64", 11, 52};
inline constexpr Layout kTf32{"tf32", 8, 10};
inline constexpr Layout kE4m3{"e4m3", 4, 3, false};
inline constexpr Layout kE5m2{"e5m2", 5, 2};

__extension__ typedef __int128 Wide;

/// A sum of numbers and products of numbers, in fixed point with `Words` words of 32 bits. The last bit is 2^Lowest.
template <int Lowest, std::size_t Words>
class FixedPoint {
 public:
  FixedPoint() = default;
  explicit FixedPoint(const Decoded& number) { add(number, 1); }
  void add(const Decoded& number, int factor);
  void add_product(const Decoded& a, const Decoded& b);
  FixedPoint times(int factor) const;
  int sign() const;

 private:
  void add_word(std::size_t first, Wide value);

  std::array<std::uint32_t, Words> words_{};  ///< two's complement, lowest word first
};
using Exact = FixedPoint<-320, 20>;          ///< up to 2^318: for products of f32
using ExactDouble = FixedPoint<-2240, 140>;  ///< up to 2^2238: for products of f64

enum class To { nearest, zero, down, up };

/// Rounds `value` and returns the bits. A value beyond the largest number becomes infinity. It becomes the largest
/// number if that is nearer, lies in the rounding direction, or `finite` is set. Zero is +0.
template <int Lowest, std::size_t Words>
std::uint64_t rounded(const Layout& format, const FixedPoint<Lowest, Words>& value, To direction, bool finite = false);

/// Rounds a finite number to an integer and clamps it to [lowest, highest].
Wide rounded_integer(const Decoded& number, To direction, Wide lowest, Wide highest);

}  // namespace cubit::tests
