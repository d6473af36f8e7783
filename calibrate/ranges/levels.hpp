// The values that a format represents, for a range of width 1.
#pragma once

#include <cubit/calibrate.hpp>
#include <vector>

namespace cubit::calibrate {

inline constexpr double kLargestE4m3 = 448;

/// Level values in ascending order. A range low … high of a symmetric format has the levels high · values[i], and an
/// asymmetric range has low + (high - low) · values[i]. Values between levels[i] and levels[i + 1] are rounded to the
/// first one below boundaries[i], which is their middle.
struct Levels {
  explicit Levels(Format format);

  double level(std::size_t i, double low, double high) const { return at(values[i], low, high); }
  double boundary(std::size_t i, double low, double high) const { return at(boundaries[i], low, high); }

  bool is_symmetric = true;
  std::vector<double> values;
  std::vector<double> boundaries;

 private:
  double at(double share, double low, double high) const {
    return is_symmetric ? high * share : low + (high - low) * share;
  }
};

}  // namespace cubit::calibrate
