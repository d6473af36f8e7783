// Histogram bins over a power-of-two range that doubles when a larger value comes.
#pragma once

#include <cstdint>
#include <cubit/calibrate.hpp>
#include <span>
#include <vector>

namespace cubit::calibrate {

class Bins {
 public:
  explicit Bins(bool has_negative) : positive_(kHistogramBins), negative_(has_negative ? kHistogramBins : 0) {}

  /// The least exponent of a histogram whose largest magnitude is `magnitude`, which is finite.
  static int exponent_of(double magnitude);
  /// Widens the range until it holds `magnitude`, which is finite.
  void cover(double magnitude);
  /// Counts values that the range holds. Without negative bins, the values are at least 0.
  void add(std::span<const float> values);
  void add(std::span<const double> values);
  void merge(const Bins& other);
  void set(const Histogram& histogram);
  Histogram view() const { return {exponent_, positive_, negative_}; }

 private:
  template <class Value>
  void count(std::span<const Value> values);
  void widen(int exponent);

  int exponent_ = kLowestExponent;
  std::vector<std::uint64_t> positive_;
  std::vector<std::uint64_t> negative_;

  static constexpr int kLowestExponent = -100;  ///< the width of a bin stays a normal number of type float
};

}  // namespace cubit::calibrate
