#include "calibrate/ranges/losses.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace cubit::calibrate {
namespace {

double log_or_zero(double value) { return value > 0 ? std::log(value) : 0; }

/// n log n of a bin whose count grows by `extra`, less that of the count alone.
double added_count_log(double count, double extra) {
  return (count + extra) * log_or_zero(count + extra) - count * log_or_zero(count);
}

}  // namespace

double squared_error(const Density& density, const Levels& levels, double low, double high) {
  double error = 0;
  Integrals before;
  for (std::size_t i = 0; i < levels.values.size(); ++i) {
    const bool is_last = i + 1 == levels.values.size();
    const Integrals after = density.below(is_last ? kHistogramBins : levels.boundary(i, low, high));
    const double level = levels.level(i, low, high);
    error += (after.second - before.second) - 2 * level * (after.first - before.first) +
             level * level * (after.count - before.count);
    before = after;
  }
  return error / density.total();
}

double divergence(const Density& density, const Levels& levels, int low, int high) {
  const double under = density.count(-kHistogramBins, low);
  const double over = density.count(high, kHistogramBins);
  const double inside = density.count(low, high);
  if ((under > 0 && density.count(low) == 0) || (over > 0 && density.count(high - 1) == 0) || inside == 0)
    return std::numeric_limits<double>::infinity();
  double entropy = density.count_log(low, high);  // the sum of P log P
  if (high - low == 1) {
    entropy += added_count_log(density.count(low), under + over);
  } else {
    entropy += added_count_log(density.count(low), under) + added_count_log(density.count(high - 1), over);
  }
  double cross = 0;  // the sum of P log Q
  int begin = low;
  for (std::size_t i = 0; i < levels.values.size() && begin < high; ++i) {
    const bool is_last = i + 1 == levels.values.size();
    const int end =
        is_last ? high : std::clamp(static_cast<int>(std::ceil(levels.boundary(i, low, high) - 0.5)), begin, high);
    const double count = density.count(begin, end);
    const double outside = (begin == low && end > low ? under : 0) + (end == high && end > begin ? over : 0);
    if (count > 0) cross += (count + outside) * std::log(count / density.filled(begin, end));
    begin = end;
  }
  const double total = density.total();
  return (entropy - cross) / total - std::log(total) + std::log(inside);
}

}  // namespace cubit::calibrate
