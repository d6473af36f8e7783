// The distribution that a histogram describes: within each bin, values are spread evenly.
//
// Positions are in bins: position 0 is the value 0, and bin i of the positive values covers i … i + 1. Bin -1 is the
// first bin of the negative values.
#pragma once

#include <cstdint>
#include <cubit/calibrate.hpp>
#include <vector>

namespace cubit::calibrate {

/// Integrals over all values below a position.
struct Integrals {
  double count = 0;
  double first = 0;   ///< of x
  double second = 0;  ///< of x²
};

class Density {
 public:
  explicit Density(const Histogram& histogram);

  Integrals below(double position) const;
  double total() const { return total_; }
  /// The values in the bin, in the bins begin … end - 1, and those bins that are not empty.
  double count(int bin) const { return counts_[index(bin)]; }
  double count(int begin, int end) const { return below_[index(end)].count - below_[index(begin)].count; }
  int filled(int begin, int end) const { return filled_[index(end)] - filled_[index(begin)]; }
  /// The sum of n log n over the bins begin … end - 1, where n is a bin's count.
  double count_log(int begin, int end) const { return count_log_[index(end)] - count_log_[index(begin)]; }
  /// The first bin that is not empty, and the end of the last one.
  int first_bin() const { return first_bin_; }
  int end_bin() const { return end_bin_; }

 private:
  static std::size_t index(int bin) { return static_cast<std::size_t>(bin + kHistogramBins); }

  std::vector<double> counts_;
  std::vector<Integrals> below_;  ///< at the lower edge of each bin, and at the end
  std::vector<int> filled_;
  std::vector<double> count_log_;
  double total_ = 0;
  int first_bin_ = 0;
  int end_bin_ = 0;
};

/// The distribution with the first positive bin, which counts zeros, cut to the larger count of its neighbours. A range
/// stores zeros exactly, so a spike of zeros, as behind a ReLU, says nothing about ranges. Without the cut,
/// Method::entropy would narrow the range until the spike had a level alone.
Density without_spike_at_zero(const Histogram& histogram);

}  // namespace cubit::calibrate
