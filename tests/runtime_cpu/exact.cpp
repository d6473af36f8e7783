// Implements exact arithmetic: decoding, rounding and fixed-point sums.
#include "tests/runtime_cpu/exact.hpp"

#include <algorithm>

namespace cubit::tests {
Decoded Layout::decode(std::uint64_t bits) const {
  Decoded number;
  number.is_negative = (bits & sign()) != 0;
  bits &= sign() - 1;
  const std::uint64_t hidden = std::uint64_t{1} << mantissa_bits;
  const auto field = static_cast<int>(bits / hidden);
  const auto mantissa = static_cast<std::int64_t>(bits % hidden);
  if (has_infinity && field == (1 << exponent_bits) - 1) {
    number.is_infinite = mantissa == 0;
    number.is_nan = mantissa != 0;
    return number;
  }
  number.is_nan = !has_infinity && bits == nan();
  number.mantissa = field == 0 ? mantissa : mantissa + static_cast<std::int64_t>(hidden);
  number.exponent = std::max(field, 1) - bias() - mantissa_bits;
  if (number.is_negative) number.mantissa = -number.mantissa;
  return number;
}

template <int Lowest, std::size_t Words>
void FixedPoint<Lowest, Words>::add_word(std::size_t first, Wide value) {
  std::uint64_t carry = 0;
  for (std::size_t i = first; i < words_.size(); ++i) {
    carry += std::uint64_t{words_[i]} + static_cast<std::uint32_t>(value);
    value >>= 32;  // keeps the sign
    words_[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
}

template <int Lowest, std::size_t Words>
void FixedPoint<Lowest, Words>::add(const Decoded& number, int factor) {
  const int position = number.exponent - Lowest;
  add_word(static_cast<std::size_t>(position / 32),
           static_cast<Wide>(number.mantissa) * factor * (Wide{1} << (position % 32)));
}

/// Multiplies in halves of 27 bits, so that no product of mantissas is longer than a mantissa.
template <int Lowest, std::size_t Words>
void FixedPoint<Lowest, Words>::add_product(const Decoded& a, const Decoded& b) {
  constexpr int kHalf = 27;
  constexpr std::int64_t kUnit = std::int64_t{1} << kHalf;
  const std::int64_t parts_of_a[] = {a.mantissa % kUnit, a.mantissa / kUnit};
  const std::int64_t parts_of_b[] = {b.mantissa % kUnit, b.mantissa / kUnit};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j)
      add({.mantissa = parts_of_a[i] * parts_of_b[j], .exponent = a.exponent + b.exponent + kHalf * (i + j)}, 1);
  }
}

template <int Lowest, std::size_t Words>
FixedPoint<Lowest, Words> FixedPoint<Lowest, Words>::times(int factor) const {
  FixedPoint product;
  for (std::size_t i = 0; i + 1 < words_.size(); ++i) product.add_word(i, Wide{words_[i]} * factor);
  product.add_word(words_.size() - 1, Wide{static_cast<std::int32_t>(words_.back())} * factor);
  return product;
}

template <int Lowest, std::size_t Words>
int FixedPoint<Lowest, Words>::sign() const {
  if (words_.back() >> 31 != 0) return -1;
  return std::any_of(words_.begin(), words_.end(), [](std::uint32_t word) { return word != 0; }) ? 1 : 0;
}

namespace {

/// |value| minus the format's number.
template <class Number>
int compared(const Layout& format, Number magnitude, std::uint64_t bits) {
  magnitude.add(format.decode(bits), -1);
  return magnitude.sign();
}

/// Whether `magnitude`, which lies between the number `low` and the next number, rounds up. Beyond the largest number
/// the spacing stays the same.
template <class Number>
bool is_nearer_above(const Layout& format, const Number& magnitude, std::uint64_t low) {
  Number difference = magnitude.times(2);
  if (low < format.largest()) {
    difference.add(format.decode(low), -1);
    difference.add(format.decode(low + 1), -1);
  } else {
    difference.add(format.decode(low), -3);
    difference.add(format.decode(low - 1), 1);
  }
  const int sign = difference.sign();
  return sign > 0 || (sign == 0 && low % 2 != 0);
}

}  // namespace

template <int Lowest, std::size_t Words>
std::uint64_t rounded(const Layout& format, const FixedPoint<Lowest, Words>& value, To direction, bool finite) {
  const int sign = value.sign();
  if (sign == 0) return 0;
  const FixedPoint<Lowest, Words> magnitude = value.times(sign);
  std::uint64_t low = 0;  // the largest number that is not above `magnitude`
  std::uint64_t above = format.largest() + 1;
  while (above - low > 1) {
    const std::uint64_t middle = (low + above) / 2;
    (compared(format, magnitude, middle) >= 0 ? low : above) = middle;
  }
  bool up = false;
  if (compared(format, magnitude, low) != 0)
    up = direction == To::nearest ? is_nearer_above(format, magnitude, low)
                                  : direction == (sign > 0 ? To::up : To::down);
  const std::uint64_t bits = up && !(finite && low == format.largest()) ? low + 1 : low;
  return sign > 0 ? bits : bits | format.sign();
}

template class FixedPoint<-320, 20>;
template class FixedPoint<-2240, 140>;
template std::uint64_t rounded(const Layout&, const Exact&, To, bool);
template std::uint64_t rounded(const Layout&, const ExactDouble&, To, bool);

Wide rounded_integer(const Decoded& number, To direction, Wide lowest, Wide highest) {
  if (number.exponent > 64) return number.mantissa == 0 ? 0 : number.mantissa < 0 ? lowest : highest;
  Wide whole = number.mantissa;
  if (number.exponent >= 0) {
    whole *= Wide{1} << number.exponent;
  } else if (whole != 0) {
    const int shift = std::min(-number.exponent, 100);
    const Wide unit = Wide{1} << shift;
    const Wide below = whole >> shift;  // towards minus infinity
    const Wide rest = whole - below * unit;
    const bool up = direction == To::up        ? rest != 0
                    : direction == To::zero    ? rest != 0 && whole < 0
                    : direction == To::nearest ? 2 * rest > unit || (2 * rest == unit && below % 2 != 0)
                                               : false;
    whole = below + (up ? 1 : 0);
  }
  return std::min(std::max(whole, lowest), highest);
}

}  // namespace cubit::tests
