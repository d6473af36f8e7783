// Compares a result with rows in double precision, for operators whose rows are computed before they are quantised.
#pragma once

#include <span>

#include "check/quantisation/quantised_rows.hpp"

namespace cubit::check::quantisation {

/// A row of the reference. The kernel's value may differ from values[i] by the rounding to 16 bits and by slack[i],
/// which covers sums in float.
struct ReferenceRow {
  std::vector<double> values;
  std::vector<double> slack;
};

/// The largest error of a row's elements and of its scale, relative to what rounding may cost: a result of at most 1 is
/// right. An element may differ by half a step of its code, by the rounding of the value to 16 bits and by the slack.
double row_error(const ResultShape& shape, const ResultView& result, std::int64_t row, const ReferenceRow& expected);

}  // namespace cubit::check::quantisation
