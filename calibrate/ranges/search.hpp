// Searches the range that loses least, over all ranges whose ends are edges of bins.
#pragma once

#include <cubit/calibrate.hpp>

#include "calibrate/ranges/density.hpp"

namespace cubit::calibrate {

/// A range in bins.
struct BinRange {
  int low = 0;
  int high = 0;
};

/// The range of Method::entropy or Method::mse. A symmetric range is searched exhaustively. The ends of an asymmetric
/// range are searched in turn, each exhaustively, until neither changes. Among ranges that lose equally little, to
/// rounding, the narrowest is chosen.
BinRange search_range(const Density& density, Method method, Format format);

}  // namespace cubit::calibrate
