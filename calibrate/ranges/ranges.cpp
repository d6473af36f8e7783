#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cubit/calibrate.hpp>
#include <string>
#include <utility>

#include "calibrate/errors.hpp"
#include "calibrate/ranges/density.hpp"
#include "calibrate/ranges/levels.hpp"
#include "calibrate/ranges/losses.hpp"
#include "calibrate/ranges/search.hpp"

namespace cubit::calibrate {
namespace {

constexpr std::array<std::string_view, 4> kMethods = {"minmax", "percentile", "entropy", "mse"};
constexpr std::array<std::string_view, 3> kFormats = {"int8", "int8_asymmetric", "e4m3"};

template <class Value, std::size_t Count>
Value parse_word(const std::array<std::string_view, Count>& words, std::string_view kind, std::string_view text) {
  std::string accepted;
  for (std::size_t i = 0; i < Count; ++i) {
    if (words[i] == text) return static_cast<Value>(i);
    accepted += (i == 0 ? "accepted: " : ", ") + std::string(words[i]);
  }
  refuse(std::string(kind) + " " + std::string(text), "is unknown", accepted);
}

bool is_symmetric(Format format) { return format != Format::int8_asymmetric; }

/// A range with the scale and zero point of its format. The range holds 0, so that zeros stay exact.
Range made_range(Format format, double low, double high) {
  if (is_symmetric(format)) {
    high = std::max(-low, high);
    low = -high;
  }
  Range range{std::min(low, 0.0), std::max(high, 0.0)};
  if (range.low == range.high) return range;
  constexpr double kSmallest = 0x1p-126;  // the scale is stored as a normal number of type float
  if (format == Format::int8) range.scale = range.high / 127;
  if (format == Format::e4m3) range.scale = range.high / kLargestE4m3;
  if (format == Format::int8_asymmetric) range.scale = (range.high - range.low) / 255;
  range.scale = std::max(range.scale, kSmallest);
  if (format == Format::int8_asymmetric)
    range.zero_point = static_cast<int>(std::clamp(std::round(-128 - range.low / range.scale), -128.0, 127.0));
  return range;
}

/// The position that `wanted` values do not exceed (step 1), or that `wanted` values are not below (step -1).
double position_of_count(const Density& density, double wanted, int step) {
  double seen = 0;
  for (int i = 0; i < 2 * kHistogramBins; ++i) {
    const int bin = step > 0 ? i - kHistogramBins : kHistogramBins - 1 - i;
    const double count = density.count(bin);
    if (count > 0 && seen + count >= wanted) {
      const double share = (wanted - seen) / count;
      return step > 0 ? bin + share : bin + 1 - share;
    }
    seen += count;
  }
  return step > 0 ? kHistogramBins : -kHistogramBins;
}

/// The position whose magnitude `wanted` values do not exceed.
double magnitude_of_count(const Density& density, double wanted) {
  double seen = 0;
  for (int bin = 0; bin < kHistogramBins; ++bin) {
    const double count = density.count(bin) + density.count(-bin - 1);
    if (count > 0 && seen + count >= wanted) return bin + (wanted - seen) / count;
    seen += count;
  }
  return kHistogramBins;
}

/// Both ends in bins. An asymmetric range gives half of the values that are left out to each end.
std::pair<double, double> percentile_range(const Density& density, Format format, double percentile) {
  // 99.9% of 1000 values are 999. The rounding of 0.999 to a binary fraction must not ask for one more.
  const double kept = percentile < 100 ? percentile / 100 * (1 - 0x1p-50) : 1;
  if (is_symmetric(format)) {
    const double magnitude = magnitude_of_count(density, kept * density.total());
    return {-magnitude, magnitude};
  }
  const double wanted = (1 + kept) / 2 * density.total();
  return {position_of_count(density, wanted, -1), position_of_count(density, wanted, 1)};
}

std::pair<double, double> chosen_bins(const Histogram& histogram, const RangeChoice& choice) {
  const Density density = choice.method == Method::entropy ? without_spike_at_zero(histogram) : Density(histogram);
  if (choice.method == Method::percentile) return percentile_range(density, choice.format, choice.percentile);
  const BinRange range = search_range(density, choice.method, choice.format);
  return {range.low, range.high};
}

void require_usable(const Statistics& statistics, const RangeChoice& choice) {
  if (statistics.non_finite() > 0)
    refuse(std::to_string(statistics.non_finite()) + " of " +
               std::to_string(statistics.count() + statistics.non_finite()) + " values",
           "are not finite", "record activations again without NaNs and infinities, or leave this layer out");
  if (statistics.count() == 0) refuse("statistics", "have no values", "add at least one batch that is not empty");
  if (choice.method != Method::minmax && !statistics.collect().histogram)
    refuse("method " + std::string(text_of(choice.method)), "needs a histogram", "collect one, or use minmax");
  if (!(choice.percentile > 0 && choice.percentile <= 100))
    refuse("percentile " + std::to_string(choice.percentile), "is not a share in percent",
           "accepted: 0 < percentile <= 100");
}

double bin_width(const Statistics& statistics) {
  return std::ldexp(1.0 / kHistogramBins, statistics.histogram().exponent);
}

/// Whether the values fill enough bins to choose among ranges. Magnitudes below 2^-112 lie in one bin.
bool has_choice(const Statistics& statistics) {
  const double magnitude = std::max(-statistics.minimum(), statistics.maximum());
  return statistics.minimum() != statistics.maximum() && magnitude > bin_width(statistics);
}

void add_losses(Range& range, Format format, const Density& density, double width) {
  const double inside = density.below(range.high / width).count - density.below(range.low / width).count;
  const Integrals all = density.below(kHistogramBins);
  range.clipped = std::clamp(1 - inside / density.total(), 0.0, 1.0);
  range.error =
      squared_error(density, Levels(format), range.low / width, range.high / width) / (all.second / density.total());
}

Range chosen_range(const Statistics& statistics, const RangeChoice& choice) {
  require_usable(statistics, choice);
  const bool has_histogram = statistics.collect().histogram && has_choice(statistics);
  if (!has_histogram) return made_range(choice.format, statistics.minimum(), statistics.maximum());
  const Density density(statistics.histogram());
  const double width = bin_width(statistics);
  double low = statistics.minimum();
  double high = statistics.maximum();
  if (choice.method != Method::minmax) {
    const auto [low_bin, high_bin] = chosen_bins(statistics.histogram(), choice);
    const double magnitude = std::max(-low, high);  // of the values; the edge of the last bin lies beyond it
    low = std::max(low_bin * width, is_symmetric(choice.format) ? -magnitude : low);
    high = std::min(high_bin * width, is_symmetric(choice.format) ? magnitude : high);
  }
  Range range = made_range(choice.format, low, high);
  add_losses(range, choice.format, density, width);
  // The estimate spreads the values of the last bin, and would count some of them beyond the largest value.
  if (range.low <= statistics.minimum() && range.high >= statistics.maximum()) range.clipped = 0;
  return range;
}

}  // namespace

std::string_view text_of(Method method) { return kMethods[static_cast<std::size_t>(method)]; }
std::string_view text_of(Format format) { return kFormats[static_cast<std::size_t>(format)]; }
Method parse_method(std::string_view text) {
  return at_surface([&] { return parse_word<Method>(kMethods, "method", text); });
}
Format parse_format(std::string_view text) {
  return at_surface([&] { return parse_word<Format>(kFormats, "format", text); });
}

Range choose_range(const Statistics& statistics, const RangeChoice& choice) {
  return at_surface([&] { return chosen_range(statistics, choice); });
}

std::vector<Range> channel_ranges(const Statistics& statistics, Format format) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < statistics.channels(); ++i) {
    const double low = statistics.channel_minima()[i];
    const double high = statistics.channel_maxima()[i];
    ranges.push_back(low > high ? Range{} : made_range(format, low, high));
  }
  return ranges;
}

}  // namespace cubit::calibrate
