// Range and moments of each channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <span>
#include <vector>

namespace cubit::calibrate {

/// Adds to a sum and keeps the rounding error.
inline void add_to_pair(double& high, double& low, double value) {
  const double sum = high + value;
  const double part = sum - high;
  low += (high - (sum - part)) + (value - part);
  high = sum;
}

/// Sums are pairs of doubles (sum and rounding error), about 100 bits. The pair's value depends on the order of the
/// values only far below a double's precision.
struct PairSums {
  std::vector<double> high;
  std::vector<double> low;

  void resize(std::size_t count) { high.resize(count), low.resize(count); }
  void add(std::size_t at, double value) { add_to_pair(high[at], low[at], value); }
  void merge(const PairSums& other) {
    for (std::size_t i = 0; i < high.size(); ++i) add(i, other.high[i]), low[i] += other.low[i];
  }
};

struct Channels {
  std::vector<double> minimum;
  std::vector<double> maximum;
  std::vector<std::uint64_t> non_finite;
  PairSums sums;  ///< empty without moments, as `squares`
  PairSums squares;

  void resize(std::size_t count, bool with_moments);
  void merge(const Channels& other);
  /// Adds one token's values of the channels from `first` on.
  template <class Value>
  void add(std::size_t first, std::span<const Value> values, bool are_finite);
  /// Moves the pending ranges to `minimum` and `maximum`. Call it after the last add().
  void flush();
  std::vector<Moments> moments(std::uint64_t tokens) const;

 private:
  template <class Value>
  void add_one(std::size_t at, Value given);
  template <class Value>
  void add_fast(std::size_t first, std::span<const Value> values);

  /// Ranges of finite floats since the last flush(). Floats take half of the memory traffic of doubles.
  std::vector<float> pending_minimum_;
  std::vector<float> pending_maximum_;
};

}  // namespace cubit::calibrate
