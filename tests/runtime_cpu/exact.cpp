#include "tests/runtime_cpu/exact.hpp"

#include <algorithm>

namespace cubit::tests {
namespace {

constexpr int kLowest = -320;  ///< exponent of the last bit

}  // namespace

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

void Exact::add_word(std::size_t first, Wide value) {
  std::uint64_t carry = 0;
  for (std::size_t i = first; i < words_.size(); ++i) {
    carry += std::uint64_t{words_[i]} + static_cast<std::uint32_t>(value);
    value >>= 32;  // keeps the sign
    words_[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
}

void Exact::add(const Decoded& number, int factor) {
  const int position = number.exponent - kLowest;
  add_word(static_cast<std::size_t>(position / 32),
           static_cast<Wide>(number.mantissa) * factor * (Wide{1} << (position % 32)));
}

void Exact::add_product(const Decoded& a, const Decoded& b) {
  add({.mantissa = a.mantissa * b.mantissa, .exponent = a.exponent + b.exponent}, 1);
}

Exact Exact::times(int factor) const {
  Exact product;
  for (std::size_t i = 0; i + 1 < words_.size(); ++i) product.add_word(i, Wide{words_[i]} * factor);
  product.add_word(words_.size() - 1, Wide{static_cast<std::int32_t>(words_.back())} * factor);
  return product;
}

int Exact::sign() const {
  if (words_.back() >> 31 != 0) return -1;
  return std::any_of(words_.begin(), words_.end(), [](std::uint32_t word) { return word != 0; }) ? 1 : 0;
}

namespace {

/// Of |value| - the format's number.
int compared(const Layout& format, Exact magnitude, std::uint64_t bits) {
  magnitude.add(format.decode(bits), -1);
  return magnitude.sign();
}

/// Whether `magnitude`, between the numbers `low` and the next, goes up. Beyond the largest number the distance between
/// numbers stays what it was.
bool is_nearer_above(const Layout& format, const Exact& magnitude, std::uint64_t low) {
  Exact difference = magnitude.times(2);
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

std::uint64_t rounded(const Layout& format, const Exact& value, To direction, bool finite) {
  const int sign = value.sign();
  if (sign == 0) return 0;
  const Exact magnitude = value.times(sign);
  std::uint64_t low = 0;  // the largest number that is not above
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
