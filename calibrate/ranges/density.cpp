#include "calibrate/ranges/density.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace cubit::calibrate {
namespace {

/// The integrals over from … to of a bin whose values have the density `count` per position.
Integrals within(double count, double from, double to) {
  return {count * (to - from), count * (to * to - from * from) / 2, count * (to * to * to - from * from * from) / 3};
}

Integrals sum(const Integrals& a, const Integrals& b) {
  return {a.count + b.count, a.first + b.first, a.second + b.second};
}

}  // namespace

Density::Density(const Histogram& histogram) : counts_(2 * kHistogramBins), below_(1), filled_(1), count_log_(1) {
  for (int bin = -kHistogramBins; bin < kHistogramBins; ++bin) {
    const std::uint64_t n = bin < 0 ? histogram.negative[static_cast<std::size_t>(-bin - 1)]
                                    : histogram.positive[static_cast<std::size_t>(bin)];
    const auto count = static_cast<double>(n);
    if (n != 0 && total_ == 0) first_bin_ = bin;
    if (n != 0) end_bin_ = bin + 1;
    counts_[index(bin)] = count;
    total_ += count;
    below_.push_back(sum(below_.back(), within(count, bin, bin + 1)));
    filled_.push_back(filled_.back() + (n != 0 ? 1 : 0));
    count_log_.push_back(count_log_.back() + (n != 0 ? count * std::log(count) : 0));
  }
}

Integrals Density::below(double position) const {
  if (position <= -kHistogramBins) return {};
  if (position >= kHistogramBins) return below_.back();
  const double edge = std::floor(position);
  const std::size_t at = index(static_cast<int>(edge));
  return sum(below_[at], within(counts_[at], edge, position));
}

Density without_spike_at_zero(const Histogram& histogram) {
  std::vector<std::uint64_t> positive(histogram.positive.begin(), histogram.positive.end());
  positive[0] = std::min(positive[0], std::max(positive[1], histogram.negative[0]));
  return Density({histogram.exponent, positive, histogram.negative});
}

}  // namespace cubit::calibrate
