#include "calibrate/statistics/channels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cubit::calibrate {
namespace {

/// n² times the variance: n Σx² - (Σx)². The two terms may agree in most of their bits, so each product keeps its
/// rounding error, and the errors are subtracted on their own.
long double scaled_variance(long double n, const PairSums& sums, const PairSums& squares, std::size_t at) {
  const long double sum = static_cast<long double>(sums.high[at]) + sums.low[at];
  const long double sum_rest = sums.low[at] - (sum - sums.high[at]);
  const long double total = n * squares.high[at];
  const long double total_rest = std::fma(n, static_cast<long double>(squares.high[at]), -total) + n * squares.low[at];
  const long double square = sum * sum;
  const long double square_rest = std::fma(sum, sum, -square) + 2 * sum * sum_rest;
  return std::max(0.0L, (total - square) + (total_rest - square_rest));
}

}  // namespace

void Channels::resize(std::size_t count, bool with_moments) {
  minimum.assign(count, std::numeric_limits<double>::infinity());
  maximum.assign(count, -std::numeric_limits<double>::infinity());
  non_finite.assign(count, 0);
  if (!with_moments) return;
  sums.resize(count);
  squares.resize(count);
}

void Channels::merge(const Channels& other) {
  for (std::size_t i = 0; i < minimum.size(); ++i) {
    minimum[i] = std::min(minimum[i], other.minimum[i]);
    maximum[i] = std::max(maximum[i], other.maximum[i]);
    non_finite[i] += other.non_finite[i];
  }
  sums.merge(other.sums);
  squares.merge(other.squares);
}

template <class Value>
void Channels::add_one(std::size_t at, Value given) {
  const double value = given;
  minimum[at] = std::min(minimum[at], value);
  maximum[at] = std::max(maximum[at], value);
  if (sums.high.empty()) return;
  sums.add(at, value);
  squares.add(at, value * value);
  if constexpr (sizeof(Value) == sizeof(double)) squares.low[at] += std::fma(value, value, -(value * value));
}

template <class Value>
void Channels::add(std::size_t first, std::span<const Value> values, bool are_finite) {
  if (are_finite && sizeof(Value) == sizeof(float)) return add_fast(first, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::isfinite(values[i]) ? add_one(first + i, values[i]) : static_cast<void>(++non_finite[first + i]);
}

/// The same for finite floats, in loops that a compiler vectorises.
template <class Value>
void Channels::add_fast(std::size_t first, std::span<const Value> values) {
  if (pending_minimum_.empty()) {
    pending_minimum_.assign(minimum.size(), std::numeric_limits<float>::infinity());
    pending_maximum_.assign(minimum.size(), -std::numeric_limits<float>::infinity());
  }
  float* const low = pending_minimum_.data() + first;
  float* const high = pending_maximum_.data() + first;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    low[i] = value < low[i] ? value : low[i];
    high[i] = value > high[i] ? value : high[i];
  }
  if (sums.high.empty()) return;
  const auto accumulate = [&](PairSums& pairs, auto term) {
    double* const sum = pairs.high.data() + first;
    double* const rest = pairs.low.data() + first;
    for (std::size_t i = 0; i < values.size(); ++i) add_to_pair(sum[i], rest[i], term(static_cast<double>(values[i])));
  };
  accumulate(sums, [](double value) { return value; });
  accumulate(squares, [](double value) { return value * value; });
}

void Channels::flush() {
  for (std::size_t i = 0; i < pending_minimum_.size(); ++i) {
    minimum[i] = std::min<double>(minimum[i], pending_minimum_[i]);
    maximum[i] = std::max<double>(maximum[i], pending_maximum_[i]);
  }
  pending_minimum_.clear();
  pending_maximum_.clear();
}

template void Channels::add(std::size_t, std::span<const float>, bool);
template void Channels::add(std::size_t, std::span<const double>, bool);

std::vector<Moments> Channels::moments(std::uint64_t tokens) const {
  std::vector<Moments> result(sums.high.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto n = static_cast<long double>(tokens - non_finite[i]);
    if (n == 0) continue;
    const long double sum = static_cast<long double>(sums.high[i]) + sums.low[i];
    result[i] = {static_cast<double>(sum / n), static_cast<double>(scaled_variance(n, sums, squares, i) / n / n)};
  }
  return result;
}

}  // namespace cubit::calibrate
