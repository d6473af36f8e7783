// How much a quantisation range loses, by the histogram. Ranges are in bins; see density.hpp.
#pragma once

#include "calibrate/ranges/density.hpp"
#include "calibrate/ranges/levels.hpp"

namespace cubit::calibrate {

/// The mean of (x - quantised x)², in squared bins.
double squared_error(const Density& density, const Levels& levels, double low, double high);

/// The Kullback-Leibler divergence of the quantised distribution Q from the clipped distribution P. P counts values
/// outside the range in the range's first and last bin. Q spreads the values of each level evenly over the level's bins
/// that are not empty, and knows no values outside the range. A bin belongs to the level nearest to the bin's middle.
/// Infinite if P has values in a bin where Q has none.
double divergence(const Density& density, const Levels& levels, int low, int high);

}  // namespace cubit::calibrate
