// Exact sums of floating-point numbers: the result does not depend on the order of the numbers.
//
// A sum is one large fixed-point number that spans the products of any two doubles. Its limbs hold 32 bits each in 64,
// so many additions need no carry.
#pragma once

#include <array>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <span>

namespace cubit::calibrate {

class ExactSum {
 public:
  static constexpr int kLimbs = 142;
  static constexpr int kLowestBit = -2304;  ///< weight of the first limb's lowest bit, as a power of two

  /// Adds value · 2^exponent. The exponent lies between kLowestBit and 2048.
  void add(std::int64_t value, int exponent);
  void merge(const ExactSum& other);
  /// The limbs after carries: each but the last lies in 0 … 2^32 - 1, and the last has the sign.
  std::array<std::int64_t, kLimbs> limbs() const;
  void set_limbs(std::span<const std::int64_t> limbs);
  long double value() const;  ///< a sum of doubles may exceed the largest double

 private:
  void carry();

  std::array<std::int64_t, kLimbs> limbs_{};
  std::uint32_t additions_ = 0;  ///< since the last carry
};

/// The sums of x and of x², both exact.
class ExactMoments {
 public:
  void add(std::span<const float> values);
  void add(std::span<const double> values);
  void merge(const ExactMoments& other);
  /// Rounded from the exact sums of `count` values, without cancellation.
  Moments moments(std::uint64_t count) const;

  ExactSum sum;
  ExactSum squares;
};

}  // namespace cubit::calibrate
