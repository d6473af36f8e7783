// Numbers without rounding, to check rounding with: a model of its own, of integers alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cubit::tests {

/// mantissa · 2^exponent, or infinity or NaN.
struct Decoded {
  std::int64_t mantissa = 0;
  int exponent = 0;
  bool is_negative = false;  ///< also of zero
  bool is_infinite = false;
  bool is_nan = false;
};

/// IEEE 754's layout: sign, exponent, mantissa.
struct Layout {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;  ///< otherwise only all ones are special: NaN

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint64_t sign() const { return std::uint64_t{1} << (exponent_bits + mantissa_bits); }
  std::uint64_t nan() const { return sign() - 1; }
  std::uint64_t largest() const {  ///< finite
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

/// A sum of numbers and products of numbers, in fixed point of `Words` words of 32 bits, the last bit 2^Lowest.
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

  std::array<std::uint32_t, Words> words_{};  ///< two's complement, the lowest first
};
using Exact = FixedPoint<-320, 20>;          ///< up to 2^318: products of f32
using ExactDouble = FixedPoint<-2240, 140>;  ///< up to 2^2238: products of f64

enum class To { nearest, zero, down, up };

/// The bits of the format's number next to `value`. Beyond the largest it is infinity, or the largest if it is nearer,
/// lies in that direction or `finite` asks for it. Zero is +0.
template <int Lowest, std::size_t Words>
std::uint64_t rounded(const Layout& format, const FixedPoint<Lowest, Words>& value, To direction, bool finite = false);

/// The integer next to a finite number, cut to [lowest, highest].
Wide rounded_integer(const Decoded& number, To direction, Wide lowest, Wide highest);

}  // namespace cubit::tests
