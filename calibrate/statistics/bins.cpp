#include "calibrate/statistics/bins.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace cubit::calibrate {
namespace {

/// Adds each 2^shift neighbours up.
void merge_neighbours(std::vector<std::uint64_t>& bins, int shift) {
  for (std::size_t i = 1; i < bins.size(); ++i) {
    const std::size_t target = shift < 63 ? i >> shift : 0;
    if (target == i) continue;
    bins[target] += bins[i];
    bins[i] = 0;
  }
}

void add_to(std::vector<std::uint64_t>& bins, std::span<const std::uint64_t> other, int shift) {
  for (std::size_t i = 0; i < bins.size(); ++i) bins[shift < 63 ? i >> shift : 0] += other[i];
}

}  // namespace

void Bins::widen(int exponent) {
  merge_neighbours(positive_, exponent - exponent_);
  merge_neighbours(negative_, exponent - exponent_);
  exponent_ = exponent;
}

int Bins::exponent_of(double magnitude) {
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  return magnitude == 0 ? kLowestExponent : std::max(exponent, kLowestExponent);
}

void Bins::cover(double magnitude) {
  const int exponent = exponent_of(magnitude);
  if (exponent > exponent_) widen(exponent);
}

template <class Value>
void Bins::count(std::span<const Value> values) {
  const auto bins_per_unit = static_cast<Value>(std::ldexp(kHistogramBins, -exponent_));
  for (const Value value : values) {
    const auto bin = static_cast<std::size_t>(static_cast<int>(std::abs(value) * bins_per_unit));
    ++(value < 0 ? negative_ : positive_)[bin];
  }
}

void Bins::add(std::span<const float> values) { count(values); }
void Bins::add(std::span<const double> values) { count(values); }

void Bins::merge(const Bins& other) {
  if (other.exponent_ > exponent_) widen(other.exponent_);
  add_to(positive_, other.positive_, exponent_ - other.exponent_);
  add_to(negative_, other.negative_, exponent_ - other.exponent_);
}

void Bins::set(const Histogram& histogram) {
  exponent_ = histogram.exponent;
  positive_.assign(histogram.positive.begin(), histogram.positive.end());
  negative_.assign(histogram.negative.begin(), histogram.negative.end());
}

}  // namespace cubit::calibrate
