#include "calibrate/statistics/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

namespace cubit::calibrate {
namespace {

constexpr int kLimbBits = 32;
constexpr std::int64_t kLimbMask = 0xffffffff;
constexpr std::uint32_t kMostAdditions = 1U << 29;  ///< each changes a limb by less than 2^32

using Digits = std::vector<std::uint32_t>;  ///< a natural number, lowest digit first

/// The magnitude of carried limbs.
Digits magnitude(const std::array<std::int64_t, ExactSum::kLimbs>& limbs) {
  const bool negative = limbs.back() < 0;
  Digits digits;
  std::int64_t carry = 0;
  for (const std::int64_t limb : limbs) {
    const std::int64_t digit = (negative ? -limb : limb) + carry;
    digits.push_back(static_cast<std::uint32_t>(digit & kLimbMask));
    carry = digit >> kLimbBits;
  }
  digits.push_back(static_cast<std::uint32_t>(carry));
  return digits;
}

Digits product(const Digits& a, const Digits& b) {
  Digits result(a.size() + b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::uint64_t carry = 0;
    if (a[i] == 0) continue;
    for (std::size_t j = 0; j < b.size(); ++j) {
      carry += std::uint64_t{a[i]} * b[j] + result[i + j];
      result[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= kLimbBits;
    }
    result[i + b.size()] = static_cast<std::uint32_t>(carry);
  }
  return result;
}

/// a -= b · 2^(32 · shift). The result is not negative.
void subtract(Digits& a, const Digits& b) {
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t digit = std::int64_t{a[i]} - (i < b.size() ? b[i] : 0) + borrow;
    a[i] = static_cast<std::uint32_t>(digit & kLimbMask);
    borrow = digit >> kLimbBits;
  }
}

/// The number times 2^lowest_bit. The error is far below a double's rounding.
long double rounded(const Digits& digits, int lowest_bit) {
  long double value = 0;
  for (std::size_t i = 0; i < digits.size(); ++i)
    if (digits[i] != 0)
      value += std::ldexp(static_cast<long double>(digits[i]), lowest_bit + kLimbBits * static_cast<int>(i));
  return value;
}

}  // namespace

void ExactSum::add(std::int64_t value, int exponent) {
  const int bit = exponent - kLowestBit;
  const auto limb = static_cast<std::size_t>(bit / kLimbBits);
  const int shift = bit % kLimbBits;
  const std::uint64_t natural = value < 0 ? -static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const std::uint64_t low = natural << shift;
  const std::uint64_t high = shift == 0 ? 0 : natural >> (2 * kLimbBits - shift);
  const auto put = [&](std::size_t i, std::uint64_t digit) {
    limbs_[limb + i] += value < 0 ? -static_cast<std::int64_t>(digit) : static_cast<std::int64_t>(digit);
  };
  put(0, low & kLimbMask);
  put(1, low >> kLimbBits);
  put(2, high);
  if (++additions_ == kMostAdditions) carry();
}

void ExactSum::carry() {
  for (std::size_t i = 0; i + 1 < kLimbs; ++i) {
    const std::int64_t carried = limbs_[i] >> kLimbBits;
    limbs_[i] &= kLimbMask;
    limbs_[i + 1] += carried;
  }
  additions_ = 0;
}

void ExactSum::merge(const ExactSum& other) {
  carry();
  const auto limbs = other.limbs();
  for (std::size_t i = 0; i < kLimbs; ++i) limbs_[i] += limbs[i];
  carry();
}

std::array<std::int64_t, ExactSum::kLimbs> ExactSum::limbs() const {
  ExactSum copy = *this;
  copy.carry();
  return copy.limbs_;
}

void ExactSum::set_limbs(std::span<const std::int64_t> limbs) {
  std::copy(limbs.begin(), limbs.end(), limbs_.begin());
  additions_ = 0;
}

long double ExactSum::value() const {
  const auto carried = limbs();
  const long double natural = rounded(magnitude(carried), kLowestBit);
  return carried.back() < 0 ? -natural : natural;
}

void ExactMoments::add(std::span<const float> values) {
  // A float is an integer of 24 bits times a power of two, so sums per exponent are sums of integers. Squares have 48
  // bits, hence the limit of 2^15 values. Two sets of sums shorten the chain of dependent additions.
  constexpr std::size_t kMost = 1 << 15;
  constexpr int kExponents = 256;
  constexpr int kWeightOfExponent0 = -150;
  struct Sums {
    std::int64_t sum;
    std::int64_t squares;
  };
  for (; !values.empty(); values = values.subspan(std::min(kMost, values.size()))) {
    std::array<std::array<Sums, kExponents>, 2> sums{};
    std::size_t set = 0;
    for (const float value : values.first(std::min(kMost, values.size()))) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t exponent = bits >> 23 & 0xff;
      const auto integer = static_cast<std::int64_t>((bits & 0x7fffff) | (exponent != 0 ? 0x800000 : 0));
      Sums& at = sums[set][exponent];
      at.sum += (bits >> 31) != 0 ? -integer : integer;
      at.squares += integer * integer;
      set ^= 1;
    }
    for (int i = 0; i < kExponents; ++i) {
      const int weight = std::max(i, 1) + kWeightOfExponent0;
      const auto at = static_cast<std::size_t>(i);
      sum.add(sums[0][at].sum + sums[1][at].sum, weight);
      squares.add(sums[0][at].squares + sums[1][at].squares, 2 * weight);
    }
  }
}

void ExactMoments::add(std::span<const double> values) {
  constexpr int kBits = 53;
  constexpr int kHalf = 27;
  for (const double value : values) {
    if (value == 0) continue;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    const auto integer = static_cast<std::int64_t>(std::ldexp(fraction, kBits));
    exponent -= kBits;
    sum.add(integer, exponent);
    const std::int64_t natural = integer < 0 ? -integer : integer;
    const std::int64_t high = natural >> kHalf;
    const std::int64_t low = natural & ((std::int64_t{1} << kHalf) - 1);
    squares.add(high * high, 2 * exponent + 2 * kHalf);
    squares.add(high * low, 2 * exponent + kHalf + 1);
    squares.add(low * low, 2 * exponent);
  }
}

void ExactMoments::merge(const ExactMoments& other) {
  sum.merge(other.sum);
  squares.merge(other.squares);
}

Moments ExactMoments::moments(std::uint64_t count) const {
  if (count == 0) return {};
  const auto n = static_cast<long double>(count);
  // variance = (n Σx² - (Σx)²) / n², whose numerator is formed exactly.
  const Digits total = magnitude(sum.limbs());
  Digits numerator(static_cast<std::size_t>(-ExactSum::kLowestBit / kLimbBits));
  const Digits scaled = product(magnitude(squares.limbs()),
                                {static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> kLimbBits)});
  numerator.insert(numerator.end(), scaled.begin(), scaled.end());
  Digits square = product(total, total);
  numerator.resize(std::max(numerator.size(), square.size()));
  subtract(numerator, square);
  return {static_cast<double>(sum.value() / n),
          static_cast<double>(rounded(numerator, 2 * ExactSum::kLowestBit) / n / n)};
}

}  // namespace cubit::calibrate
