#include "check/quantisation/row_comparison.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "check/byte_values.hpp"

namespace cubit::check::quantisation {
namespace {

constexpr double kWrong = std::numeric_limits<double>::infinity();

/// Relative error of the rounding to a 16-bit type, with a little for arithmetic in float.
double rounding_of(Element element) { return 1.02 * (element == Element::fp16 ? 0x1p-11 : 0x1p-8); }

/// What a rounding of `value` to 16 bits and the slack may change.
double allowance(Element element, double value, double slack) {
  constexpr double kSubnormal = 0x1p-25;  // half a step of fp16's subnormal numbers
  return rounding_of(element) * std::fabs(value) + slack + (element == Element::fp16 ? kSubnormal : 1e-38);
}

/// Half a step of the code beside a number of steps.
double half_step(Quantised type, double steps) {
  if (type == Quantised::int8) return 0.5;
  // ilogb(0) is below every exponent.
  return std::ldexp(1.0, std::max(std::ilogb(steps), kE4m3.least_exponent) - kE4m3.fraction_bits - 1);
}

/// The smallest magnitude that rounds to infinity.
double limit_of(Element element) { return element == Element::fp16 ? 65520 : 0x1.ffp127; }

/// Whether a finite value may round to the largest number or to infinity, so that both are right. The slack of an
/// infinite value may be infinite as well, and allows nothing.
bool is_at_limit(Element element, double value, double slack) {
  if (!std::isfinite(value)) return false;
  return std::fabs(std::fabs(value) - limit_of(element)) <= allowance(element, limit_of(element), slack);
}

/// The value after it is rounded to the 16-bit type: infinite beyond the largest number.
double in_range(Element element, double value, double slack) {
  if (is_at_limit(element, value, slack)) return std::copysign(element == Element::fp16 ? 65504 : 0x1.fep127, value);
  const bool is_beyond = std::fabs(value) >= limit_of(element);
  return is_beyond ? std::copysign(std::numeric_limits<double>::infinity(), value) : value;
}

double unquantised_error(const ResultShape& shape, const ResultView& result, std::int64_t row,
                         const ReferenceRow& expected) {
  double error = 0;
  for (std::int64_t column = 0; column < shape.columns; ++column) {
    const double slack = expected.slack[column];
    if (is_at_limit(shape.element, expected.values[column], slack)) continue;
    const double value = in_range(shape.element, expected.values[column], slack);
    const double found = result.unquantised(row, column);
    if (std::isnan(value) != std::isnan(found)) return kWrong;
    if (std::isnan(value) || found == value) continue;
    error = std::max(error, relative_error(std::fabs(found - value), allowance(shape.element, value, slack)));
  }
  return error;
}

/// A row whose scale must be NaN.
double not_finite_error(const ResultShape& shape, const ResultView& result, std::int64_t row) {
  constexpr std::uint32_t kNan = 0x7fc00000;
  bool is_right = std::bit_cast<std::uint32_t>(result.scale(row)) == kNan && result.zero_point(row) == 0;
  for (std::int64_t column = 0; column < shape.columns; ++column) is_right = is_right && result.byte(row, column) == 0;
  return is_right ? 0 : kWrong;
}

double element_error(const ResultShape& shape, const ResultView& result, std::int64_t row, std::int64_t column,
                     double value, double slack) {
  const Quantised type = shape.quantisation.output;
  const double found = value_of(type, result.byte(row, column));
  if (!std::isfinite(value)) {  // of a given scale
    if (type == Quantised::fp8_e4m3) return std::isnan(found) ? 0 : kWrong;
    return found == (std::isnan(value) ? 0 : std::copysign(most_of(type), value)) ? 0 : kWrong;
  }
  const double scale = result.scale(row);
  const int zero = result.zero_point(row);
  const double least = shape.quantisation.has_zero_points() ? -128 : -most_of(type);
  const double most = most_of(type);
  const double steps = std::clamp(value / scale + zero, least, most);
  const double difference = (std::fabs(found - steps) - half_step(type, steps)) * scale;
  // Float arithmetic of the quotient and, beside a zero point, of the sum.
  const double arithmetic = 0x1p-15 * scale;
  return std::max(0.0, relative_error(difference, allowance(shape.element, value, slack) + arithmetic));
}

/// The scale and the zero point follow from the extremes of the row.
double scale_error(const ResultShape& shape, const ResultView& result, std::int64_t row, const ReferenceRow& expected) {
  const auto [least, largest] = std::minmax_element(expected.values.begin(), expected.values.end());
  const double lowest = std::min(*least, 0.0);
  const double highest = std::max(*largest, 0.0);
  const double slack = *std::max_element(expected.slack.begin(), expected.slack.end());
  const bool has_zero = shape.quantisation.has_zero_points();
  const double steps = has_zero ? 255 : most_of(shape.quantisation.output);
  const double range = has_zero ? highest - lowest : std::max(highest, -lowest);
  constexpr double kLeastScale = 1e-8;
  const double scale = std::max(range / steps, kLeastScale);
  const double allowed = (allowance(shape.element, range, slack) * (has_zero ? 2 : 1)) / steps + 1e-6 * scale;
  double error = relative_error(std::fabs(result.scale(row) - scale), allowed);
  if (has_zero) {
    const double zero = std::clamp(-128 - lowest / result.scale(row), -128.0, 127.0);
    const double beyond = std::fabs(result.zero_point(row) - zero) - 0.5;
    error = std::max(error, relative_error(std::max(0.0, beyond),
                                           allowance(shape.element, lowest, slack) / result.scale(row) + 0x1p-15));
  }
  return error;
}

}  // namespace

double row_error(const ResultShape& shape, const ResultView& result, std::int64_t row, const ReferenceRow& expected) {
  if (shape.quantisation.output == Quantised::none) return unquantised_error(shape, result, row, expected);
  ReferenceRow rounded = expected;
  bool has_limit = false;
  for (std::int64_t i = 0; i < shape.columns; ++i) {
    has_limit = has_limit || is_at_limit(shape.element, expected.values[i], expected.slack[i]);
    rounded.values[i] = in_range(shape.element, expected.values[i], expected.slack[i]);
  }
  const bool writes_scales = shape.quantisation.writes_scales();
  if (writes_scales) {
    const auto is_finite = [](double value) { return std::isfinite(value); };
    const bool is_finite_row = std::all_of(rounded.values.begin(), rounded.values.end(), is_finite);
    const double error = not_finite_error(shape, result, row);
    if (!is_finite_row || (has_limit && error == 0)) return error;
  }
  double error = writes_scales ? scale_error(shape, result, row, rounded) : 0;
  for (std::int64_t i = 0; i < shape.columns; ++i) {
    if (is_at_limit(shape.element, expected.values[i], expected.slack[i])) continue;
    error = std::max(error, element_error(shape, result, row, i, rounded.values[i], rounded.slack[i]));
  }
  return error;
}

}  // namespace cubit::check::quantisation
